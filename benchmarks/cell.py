"""A cell of the published figure by the workflow's own program: 117 blocks of 512 samples."""

import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks import figures, machine
from benchmarks.problem import GEMM_SIZE, gemm_rates, needed_flops
from benchmarks.report import Target, spread_text, table, target_rows, target_table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, spread
from ntk_conditioning.data.prepared import PreparedSamples, save_prepared
from ntk_conditioning.errors import UserError
from ntk_conditioning.plotting import NOTE
from ntk_conditioning.seeds import generator

TITLE = "A cell of the published figure"
ROOT = Path(__file__).parents[1]
SAMPLES, DIM, BLOCK, WIDTH = 60_000, 784, 512, 512
DEPTHS = (1, 5, 10)
JUDGED_DEPTH = 10
log = logging.getLogger("benchmarks")


class ProgramError(UserError):
    """The program that is measured fails."""


def command(
    data: Path, output: Path, *, depth: int, block: int, width: int, blocks: str, threads: int
) -> list[str]:
    """Return the program's command line: the only place that knows its options."""
    options = {
        "--data": data,
        "--dataset": "synthetic_images",
        "--activation": "relu",
        "--depths": depth,
        "--seeds": 1,
        "--width": width,
        "--dtype": "float64",
        "--kernel-size": block,
        "--blocks": blocks,
        "--eigenvalues": "none",
        "--threads": threads,
        "--output": output,
    }
    program = [sys.executable, "scripts/compute_spectrum.py"]
    return program + [str(word) for option in options.items() for word in option]


def save_images(path: Path, *, samples: int, dim: int) -> None:
    """Write random bytes as a prepared dataset of images, which have the size of MNIST's."""
    x = generator(0, "data").integers(0, 256, size=(samples, dim), dtype=np.uint8)
    save_prepared(path, PreparedSamples("synthetic_images", x, None, "symmetric", (0.0, 255.0)))


def run(arguments: list[str]) -> tuple[float, int]:
    """Return the seconds of a program and its peak resident bytes.

    Raises:
        ProgramError: if it fails.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(arguments, cwd=ROOT, env=environment, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["no message"])[-1]
            raise ProgramError(f"{arguments[1]} ends with code {process.returncode}: {last}")
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, see getrusage(2)
    return seconds, usage.ru_maxrss * unit


def measure(settings: Settings) -> dict[str, Any]:
    """Return wall seconds and peak memory of the program, by depth."""
    quick = settings.quick
    samples, dim, block, width = (96, 8, 32, 16) if quick else (SAMPLES, DIM, BLOCK, WIDTH)
    rates = gemm_rates(size=256 if quick else GEMM_SIZE, rounds=settings.rounds)
    peaks: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        save_images(data, samples=samples, dim=dim)

        def program(name: str, depth: int, blocks: str) -> Callable[[], float]:
            def timed() -> float:
                arguments = command(
                    data,
                    Path(folder) / "spectrum.parquet",
                    depth=depth,
                    block=block,
                    width=width,
                    blocks=blocks,
                    threads=settings.threads,
                )
                seconds, peak = run(arguments)
                peaks.setdefault(name, []).append(peak)
                return seconds

            return timed

        # One block of a shallow network is the cost of starting and of reading the data.
        methods = {"start": program("start", 1, "1")}
        for depth in () if quick else DEPTHS:
            methods[f"depth_{depth}"] = program(f"depth_{depth}", depth, "all")
        if not quick:
            methods["start"]()  # compiled files and the data are then in the system's cache
            peaks.clear()
        seconds = interleaved(methods, rounds=settings.rounds)
    blocks = samples // block
    flops = blocks * needed_flops(block, dim, width, JUDGED_DEPTH)
    return {
        "machine": machine.facts(settings.threads),
        "gemm_gflops": rates,
        "targets": target_rows(judge(seconds)),
        "problem": {"blocks": blocks, "n": block, "d": dim, "width": width},
        "seconds": seconds,
        "peak_bytes": {name: max(values) for name, values in peaks.items()},
        "seconds_at_gemm_rate": flops / (1e9 * rates["float64"]["median"]),
    }


def judge(seconds: dict[str, list[float]]) -> list[Target]:
    """Return the target, which is that of the deepest network."""
    taken = seconds.get(f"depth_{JUDGED_DEPTH}")
    if taken is None:
        return []
    what = f"the program, {SAMPLES // BLOCK} blocks, depth {JUDGED_DEPTH}"
    return [Target(what, "at most", 25, spread(taken)["median"], " s")]


def words(name: str) -> str:
    """Return what a row of the table is."""
    return "one block, depth 1" if name == "start" else name.replace("depth_", "all blocks, depth ")


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    problem, bound = result["problem"], result["seconds_at_gemm_rate"]
    lines = [
        machine.sentence(result["machine"], result["gemm_gflops"]),
        "",
        f"`scripts/compute_spectrum.py` as a process, {problem['blocks']} blocks of {problem['n']}",
        f"samples of random bytes, d {problem['d']}, width {problem['width']}, one seed, float64: "
        "from start to the",
        f"written table. The kernels alone would take {bound:.2g} s at depth {JUDGED_DEPTH} at the "
        "matrix product's rate.",
        "",
        *target_table(result["targets"]),
        *table(
            ("", "seconds", "peak memory"),
            [
                (
                    words(name),
                    spread_text(spread(taken)),
                    f"{result['peak_bytes'][name] / 1e9:.2f} GB",
                )
                for name, taken in result["seconds"].items()
            ],
        ),
    ]
    return "\n".join(lines)


def figure(result: dict[str, Any]) -> Figure:
    """Return the seconds of every run, by what was computed."""
    drawn, (ax,) = figures.canvas(height=1.8)
    names = list(result["seconds"])
    for row, name in enumerate(names):
        taken = result["seconds"][name]
        ax.plot(taken, [row] * len(taken), "o", color=figures.OURS, markersize=4, alpha=0.5)
        ax.annotate(
            f"{spread(taken)['median']:.3g} s",
            (max(taken), row),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    ax.set_yticks(range(len(names)), [words(name) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.6)
    ax.tick_params(axis="y", length=0)
    longest = max(max(taken) for taken in result["seconds"].values())
    ax.set_xlim(0, 1.2 * longest)
    if result["targets"]:
        ax.set_xlim(0, 1.4 * max(longest, 25))
        ax.axvline(25, color="#8a8a8a", zorder=0, **figures.DASHED)
        text = f"asked for at depth {JUDGED_DEPTH}"
        ax.annotate(text, (25, 0), xytext=(4, 0), textcoords="offset points", va="center", **NOTE)
    ax.set_xlabel("seconds from start to table")
    return drawn
