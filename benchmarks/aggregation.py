"""Putting up to 100,000 cells together: seconds and memory of the programs that do it.

Each program runs once for every number of cells, in a process of its own.
"""

import importlib
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from benchmarks import figures, machine
from benchmarks.memory import ROOT, STATUS, resident
from benchmarks.report import Target, number, table, target_rows, target_table
from benchmarks.settings import Settings
from ntk_conditioning import tables

TITLE = "Aggregation of many cells"
BLOCKS, SAMPLES = 10, 512
CONTENTS = 7  # distinct ones; what a cell holds does not matter, that its keys are its own does
PROGRAMS = {"aggregate_table": "#0072B2", "aggregate_conditioning": "#D55E00"}


def write_rows(
    folder: Path, *, seeds: int, datasets: int = 10, depths: int = 20, activations: int = 10
) -> list[Path]:
    """Write rows of spectra: ten blocks in each cell, the eigenvalues of the first one kept."""
    contents = [_content(number) for number in range(CONTENTS)]
    paths = []
    for dataset, activation in product(range(datasets), range(activations)):
        row = ("empirical_ntk", f"dataset_{dataset}", f"activation_{activation}")
        cells = []
        for place, cell in enumerate(product(range(depths), range(seeds))):
            data = contents[place % CONTENTS]
            for name, value in zip(tables.get("spectra").keys[:-1], (*row, *cell), strict=True):
                field = tables.get("spectra").schema.field(name)
                column = pa.array([value] * BLOCKS, field.type)
                data = data.set_column(data.schema.get_field_index(name), field, column)
            cells.append(data)
        paths.append(folder.joinpath(*row).with_suffix(".parquet"))
        tables.write(paths[-1], "spectra", pa.concat_tables(cells))
    return paths


def _content(number: int) -> pa.Table:
    return tables.from_rows("spectra", _rows(np.random.default_rng(number)))


def _rows(random: np.random.Generator) -> Iterator[dict[str, Any]]:
    for block in range(BLOCKS):
        eigenvalues = np.sort(random.lognormal(sigma=2, size=SAMPLES))[::-1]
        high, low = float(eigenvalues[0]), float(eigenvalues[-1])
        share = eigenvalues / eigenvalues.sum()
        eps = float(np.finfo(float).eps)
        yield {
            "kernel": "empirical_ntk",
            "dataset": "",
            "activation": "",
            "depth": 0,
            "seed": 0,
            "block": block,
            "width": SAMPLES,
            "dtype": "float64",
            "n": SAMPLES,
            "d": 784,
            "method": "spectrum",
            "lambda_max": high,
            "lambda_max_error": eps * high,
            "lambda_min": low,
            "lambda_min_error": eps * high,
            "resolution_floor": SAMPLES * eps * high,
            "numerical_rank": SAMPLES,
            "kappa": high / low,
            "kappa_error": eps * high / low,
            "kappa_nonzero": high / low,
            "effective_rank": float(np.exp(-np.sum(share * np.log(share)))),
            "reduced_precision": False,
            "eigenvalues": eigenvalues.tolist() if block == 0 else None,
        }


def measure(settings: Settings) -> dict[str, Any]:
    """Return the seconds and the peak memory of both programs, by the number of cells."""
    sizes = [1, 2] if settings.quick else [1, 5, 50]
    datasets, depths = (1, 1) if settings.quick else (10, 20)
    points = []
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "table.parquet"
        for seeds in sizes:
            sides = {"seeds": seeds, "datasets": datasets, "depths": depths, "activations": 10}
            rows = write_rows(Path(folder) / str(seeds), **sides)
            for program in PROGRAMS:
                measured = run(program, rows, output)
                points.append({"program": program, "cells": math.prod(sides.values())} | measured)
    return {
        "machine": machine.facts(settings.threads),
        "targets": target_rows(targets(points)),
        "blocks": BLOCKS,
        "samples": SAMPLES,
        "points": points,
    }


def run(program: str, rows: Sequence[Path], output: Path) -> dict[str, Any]:
    """Return the seconds and the peak memory in bytes of one program, all included."""
    command = [sys.executable, "-m", "benchmarks.aggregation", program, f"--output={output}"]
    command += ["--table=spectra"] if program == "aggregate_table" else []
    command += ["--rows", *map(str, rows)]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak": json.loads(done.stdout)}


def targets(points: list[dict[str, Any]]) -> list[Target]:
    """Return what was asked of the largest number of cells."""
    found = []
    for program in PROGRAMS:
        last = [point for point in points if point["program"] == program][-1]
        what = f"`{program}` of 100,000 cells"
        measured = last["cells"] == 100_000
        peak = last["peak"] / 1e9 if measured and last["peak"] else None
        seconds = last["seconds"] if measured else None
        found += [
            Target(f"peak memory of {what}", "at most", 2.0, peak, " GB"),
            Target(f"time of {what}", "at most", 300.0, seconds, " s"),
        ]
    return found


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    rows = (
        (
            f"`{point['program']}`",
            f"{point['cells']:,}",
            number(point["seconds"]),
            number(1e3 * point["seconds"] / point["cells"]),
            "" if point["peak"] is None else number(point["peak"] / 1e6),
        )
        for point in result["points"]
    )
    lines = [
        machine.sentence(result["machine"], None),
        "",
        f"A cell has {result['blocks']} kernel blocks; of the first one all {result['samples']} "
        "eigenvalues are kept.",
        "The whole program is measured, once; its peak includes what the benchmark itself loads.",
        "",
        *target_table(result["targets"]),
        *table(("", "cells", "seconds", "ms per cell", "peak memory, MB"), rows),
    ]
    return "\n".join(lines)


def figure(result: dict[str, Any]) -> Figure:
    """Return time and peak memory by the number of cells."""
    drawn, (time_axes, memory_axes) = figures.canvas(columns=2)
    for program, color in PROGRAMS.items():
        line = [point for point in result["points"] if point["program"] == program]
        sizes = [point["cells"] for point in line]
        time_axes.plot(
            sizes, [p["seconds"] for p in line], "o-", color=color, label=program.split("_")[1]
        )
        if all(point["peak"] for point in line):
            memory_axes.plot(sizes, [p["peak"] / 1e9 for p in line], "o-", color=color)
        for axes in (time_axes, memory_axes):
            figures.plain_ticks(axes, sizes, "cells")
    time_axes.set_yscale("log")
    time_axes.set_ylabel("seconds")
    time_axes.legend()
    figures.target_line(memory_axes, 2.0)
    figures.note(memory_axes, "asked for at 100,000 cells", top=True)
    memory_axes.set_ylim(0, 2.4)
    memory_axes.set_ylabel("peak memory, GB")
    return drawn


def main() -> int:
    program, *arguments = sys.argv[1:]
    sys.path.insert(0, str(ROOT / "scripts"))
    if importlib.import_module(program).main(arguments):
        return 1
    print(json.dumps(resident("VmHWM") if STATUS.exists() else None))
    return 0


if __name__ == "__main__":
    sys.exit(main())
