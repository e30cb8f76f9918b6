"""Estimate what a run costs: core-hours, GPU-hours, the longest job and the memory.

The estimate is fitted to the benchmark files of earlier jobs, in LOGS/{run}/{rule}/, as far as the
cells that they computed are in RESULTS/{run}/. Without any it uses the package's own numbers. The
run with the newest benchmark is also predicted from all others, to show how far off that is.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cli import Parser, run_main

from ntk_conditioning import costs
from ntk_conditioning.costs import Model, Observation, Work
from ntk_conditioning.files import atomic

#: Snakemake looks at a process every half second at first, later every half minute.
OFTEN, SELDOM = (0.5, 15.5), 30.0

#: Numbers by rule.
Sums = dict[str, dict[str, float]]


class NotWholeError(Exception):
    """A job did not do all of its work, or nobody knows how much."""


@dataclass(frozen=True)
class Benchmark:
    """A job of a run, with what it took."""

    run: str
    time: float
    observation: Observation


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument(
        "--jobs",
        type=job_groups,
        required=True,
        help="planned jobs, a list in JSON: rule, jobs, flops, memory, gpu, threads of each group",
    )
    parser.add_argument("--results", type=Path, default="results", help="folder of all runs")
    parser.add_argument("--logs", type=Path, default="logs", help="folder of all runs' logs")
    parser.add_argument("--output", type=Path, help="file for the same numbers (.json)")
    args = parser.parse_args(argv)

    benchmarks, unusable = read_benchmarks(args.logs, args.results)
    model = Model().fit(benchmark.observation for benchmark in benchmarks)
    estimate = estimated(model, args.jobs)
    comparison = compared(benchmarks)
    sys.stdout.write("\n".join(report(model, estimate, comparison, benchmarks, unusable)) + "\n")
    if args.output:
        with atomic(args.output) as temporary:
            text = json.dumps({"estimate": estimate, "comparison": comparison}, indent=1)
            temporary.write_text(text + "\n", encoding="utf-8")
    return 0


def job_groups(text: str) -> list[dict[str, Any]]:
    """Return groups of equal jobs; a type for `Parser.add_argument`."""
    numbers = {"jobs", "flops", "memory", "gpu", "threads"}
    try:
        groups = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(groups, list) or any(
        not isinstance(group, dict)
        or group.keys() != numbers | {"rule"}
        or not all(isinstance(group[key], int | float) for key in numbers)
        for group in groups
    ):
        raise argparse.ArgumentTypeError("not a list of objects with a rule and its numbers")
    return groups


# --- benchmarks -----------------------------------------------------------------------------------


def read_benchmarks(logs: Path, results: Path) -> tuple[list[Benchmark], list[Path]]:
    """Return the jobs that can be used, and the benchmark files of those that cannot."""
    found, unusable = [], []
    for path in sorted(logs.glob("*/**/*.tsv")):
        run, rule, *place = path.relative_to(logs).with_suffix("").parts
        try:
            log = path.with_suffix(".log")
            text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            if ": kept\n" in text or "going on from a checkpoint" in text:
                raise NotWholeError
            work = work_of(rule, place, results / run)
            gpu = "device cuda" in text
            found.append(Benchmark(run, path.stat().st_mtime, measured(path, rule, work, gpu)))
        except (OSError, ValueError, LookupError, TypeError, NotWholeError, pa.ArrowException):
            unusable.append(path)
    return found, unusable


def measured(path: Path, rule: str, work: Work, gpu: bool) -> Observation:
    """Return what a benchmark file says.

    The processor's time is as of the last look at the process, and goes on at the same pace.
    """
    with path.open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    seconds = float(row["s"])
    memory = None if row["max_rss"] in ("NA", "-") else float(row["max_rss"]) * 1e6
    short, until = OFTEN
    if seconds < until:
        looked = seconds // short * short
    else:
        looked = until + (seconds - until) // SELDOM * SELDOM
    busy = 0.0 if row["cpu_time"] in ("NA", "-") else float(row["cpu_time"])
    if not gpu and busy > 0 and looked > 0:
        seconds *= busy / looked
    if not seconds > 0:
        raise ValueError(f"{path}: no time")
    return Observation(rule, work, seconds, memory, gpu)


# --- cells ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """Where a rule's cells are, and their columns that say what they cost.

    The dataset is part number ``dataset`` of the cells' place.
    """

    folder: str
    columns: list[str]
    dataset: int = 0


SPECTRA = ["depth", "seed", "width", "dtype", "n", "method"]
ANGLES = ["depth", "seed", "width", "min_angle"]
KERNELS = ["depth", "seed", "width", "n_train"]
NETWORKS = ["depth", "width", "n", "n_test", "d", "classes", "outputs", "batch_size", "dtype"]
RULES = {
    "prepare_dataset": Rule("datasets", []),
    "describe_dataset": Rule("datasheets", []),
    "compute_spectrum": Rule("spectra/empirical_ntk", SPECTRA),
    "compute_infinite_spectrum": Rule("spectra", SPECTRA, 1),
    "compute_min_angle": Rule("angles/empirical_ntk", ANGLES),
    "compute_infinite_min_angle": Rule("angles/infinite_ntk", ANGLES),
    "compute_training_kernel": Rule("training_kernels", KERNELS, 1),
    "train_network": Rule("training", [*NETWORKS, "seed", "learning_rate", "epoch", "diverged"], 1),
}


def work_of(rule: str, place: Sequence[str], run: Path) -> Work:
    """Return the work of a job of a run from the cells that it computed, at ``place``."""
    if rule not in RULES:
        return costs.LIGHT
    known = RULES[rule]
    stem = run.joinpath(known.folder, *place)
    single = stem.with_name(f"{stem.name}.parquet")
    paths = [single] if single.exists() else sorted(stem.glob("**/*.parquet"))
    rows = [
        row
        for path in paths
        for row in pq.read_table(path, columns=known.columns, partitioning=None).to_pylist()
    ]
    sheets = sorted((run / "datasets" / place[known.dataset]).glob("*.json"))
    if not sheets or (known.columns and not rows):
        raise NotWholeError
    sheet = json.loads(sheets[0].read_text(encoding="utf-8"))
    size = {"n": sheet["n"], "d": sheet["d"]}
    if rule == "prepare_dataset":
        return costs.preparation(**size)
    if rule == "describe_dataset":
        return costs.description(**size)
    if rule == "train_network":
        return training_work(rows, loaded=sheet["n"])
    activation = next(part for part in reversed(place) if not part.startswith("depth-"))
    first, seeds = rows[0], len({row["seed"] for row in rows})
    if rule == "compute_training_kernel":
        sizes = {key: first[key] for key in ("width", "depth")}
        samples = {"n": first["n_train"], "d": sheet["d"], "loaded": sheet["n"]}
        return costs.training_kernel(**samples, **sizes, seeds=seeds, linear=activation == "linear")
    depths = sorted({row["depth"] for row in rows})
    if "spectrum" in rule:
        whole = all(row["method"] != "extremes" for row in rows)
        size |= {
            "kernel_size": first["n"],
            "blocks": len(rows) // (seeds * len(depths)),
            "full_below": first["n"] + whole,
            "dtype_bytes": np.dtype(first["dtype"]).itemsize,
        }
    elif any(row["min_angle"] == 0 for row in rows):  # equal samples end a search before it begins
        raise NotWholeError
    return costs.cells(rule, activation, **size, depths=depths, seeds=seeds, width=first["width"])


def training_work(rows: Sequence[dict[str, Any]], *, loaded: int) -> Work:
    """Return the work that was done: networks that diverged count for the epochs until then."""
    row, epochs = rows[0], sorted({row["epoch"] for row in rows})
    trained = sum(not own["diverged"] and own["epoch"] < epochs[-1] for own in rows)
    return costs.training(
        **{key: row[key] for key in ("n", "d", "width", "depth", "n_test")},
        classes=row["classes"] if row["outputs"] == "classes" else 1,
        networks=trained / (len(epochs) - 1),
        epochs=epochs[-1],
        batch=row["batch_size"],
        evaluate_every=epochs[1],
        loaded=loaded,
        draws=len({own["seed"] for own in rows}) if row["n"] < loaded else 0,
        dtype_bytes=np.dtype(row["dtype"]).itemsize,
    )


# --- estimates ------------------------------------------------------------------------------------


def estimated(model: Model, groups: Iterable[dict[str, Any]]) -> Sums:
    """Return of every rule, and of all, how many jobs there are and what they cost."""
    sums: Sums = {}
    for group in groups:
        rule, jobs, gpu, threads = (group[key] for key in ("rule", "jobs", "gpu", "threads"))
        work = Work(group["flops"], group["memory"])
        hours = model.seconds(rule, work, gpu=bool(gpu), threads=threads) / 3600
        add(
            sums,
            rule,
            {"jobs": jobs, "core_hours": jobs * hours * threads, "gpu_hours": jobs * hours * gpu},
            {"longest_hours": hours, "memory": work.memory},
        )
    return ordered(sums, "core_hours")


def compared(benchmarks: Sequence[Benchmark]) -> dict[str, Any] | None:
    """Return what the run with the newest benchmark took, and what the others predict for it."""
    if not benchmarks:
        return None
    last = max(benchmarks, key=lambda benchmark: benchmark.time).run
    others = [benchmark.observation for benchmark in benchmarks if benchmark.run != last]
    model, sums = Model().fit(others), Sums()
    for observation in (benchmark.observation for benchmark in benchmarks if benchmark.run == last):
        kind, work = observation.kind, observation.work
        predicted = model.seconds(kind, work, gpu=observation.gpu)
        add(
            sums,
            kind,
            {"predicted_hours": predicted / 3600, "measured_hours": observation.seconds / 3600},
            {"predicted_memory": work.memory, "measured_memory": observation.memory or 0},
        )
    return {"run": last, "jobs": len(others), "rules": ordered(sums, "measured_hours")}


def add(sums: Sums, rule: str, added: dict[str, float], largest: dict[str, float]) -> None:
    """Count a job for its rule and for all."""
    for name in (rule, "all"):
        row = sums.setdefault(name, dict.fromkeys((*added, *largest), 0))
        row |= {key: row[key] + value for key, value in added.items()}
        row |= {key: max(row[key], value) for key, value in largest.items()}


def ordered(sums: Sums, key: str) -> Sums:
    """Return the rules with the costliest first, and the sum of all last."""
    return dict(sorted(sums.items(), key=lambda item: (item[0] == "all", -item[1][key])))


# --- report ---------------------------------------------------------------------------------------


def report(
    model: Model,
    estimate: Sums,
    comparison: dict[str, Any] | None,
    benchmarks: Sequence[Benchmark],
    unusable: Sequence[Path],
) -> Iterator[str]:
    """Yield the lines of the estimate."""
    lines = [
        [
            rule,
            f"{row['jobs']:.0f}",
            f"{row['core_hours']:.2f}",
            f"{row['gpu_hours']:.2f}",
            duration(row["longest_hours"]),
            gigabytes(row["memory"]),
        ]
        for rule, row in estimate.items()
    ]
    yield from table(["rule", "jobs", "core-hours", "GPU-hours", "longest job", "memory"], lines)
    yield ""
    if benchmarks:
        yield f"Fitted to the benchmarks of {len(benchmarks)} jobs."
    else:
        yield "From the package's own numbers: there are no benchmarks to fit."
    on_gpus = [rule for rule, row in estimate.items() if rule != "all" and row["gpu_hours"]]
    assumed = [rule for rule in on_gpus if model.pace(rule, gpu=True).assumed]
    if assumed:
        yield f"GPU-hours of {', '.join(assumed)} are assumed: no such job on a GPU was measured."
    if unusable:
        names = ", ".join(map(str, unusable[:3])) + (", ..." if len(unusable) > 3 else "")
        yield f"{len(unusable)} benchmarks unreadable, without cells or of a part of them: {names}"
    if comparison is None:
        return
    jobs = comparison["jobs"]
    origin = f"{jobs} jobs of other runs" if jobs else "the package's own numbers"
    yield from ("", f"The last run, {comparison['run']}, as predicted from {origin}:", "")
    lines = [
        [
            rule,
            f"{row['predicted_hours']:.2f}",
            f"{row['measured_hours']:.2f}",
            f"{row['predicted_hours'] / row['measured_hours']:.2f}",
            gigabytes(row["predicted_memory"]),
            gigabytes(row["measured_memory"]),
        ]
        for rule, row in comparison["rules"].items()
    ]
    hours = ["predicted hours", "measured hours", "ratio"]
    yield from table(["rule", *hours, "predicted memory", "measured memory"], lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table: names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        name, *numbers = (
            text.rjust(width) if at else text.ljust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([name, *numbers]).rstrip()


def gigabytes(number: float) -> str:
    """Return a number of bytes as a text."""
    return f"{number / 1e9:.1f} GB"


def duration(hours: float) -> str:
    """Return hours as a text.

    >>> duration(1.51), duration(0.01)
    ('1 h 31 min', '1 min')
    """
    whole, minutes = divmod(math.ceil(60 * hours), 60)
    return f"{whole} h {minutes:02} min" if whole else f"{minutes} min"


if __name__ == "__main__":
    sys.exit(main())
