"""The smallest gradient angle over all pairs, against the arccosine of the kernel's entries."""

import logging
import math
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from benchmarks import figures, machine
from benchmarks.memory import peak
from benchmarks.problem import GEMM_SIZE, Problem, gemm_rates, require_near
from benchmarks.report import Target, spread_text, table, target_rows, target_table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, spread, stopwatch
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks.mlp import MLP
from ntk_conditioning.plotting import NOTE, label_line_ends

TITLE = "The smallest gradient angle"
SIZES = (2500, 5000, 10000, 20000)
LARGEST_KERNEL = 10000
DEPTH = 5
JUDGED_SIZE = 20000
LABELS = {"ours": "`empirical.min_angle`", "arccosine": "the kernel, then arccos of its entries"}
COLORS = {"ours": figures.OURS, "arccosine": "#D55E00"}

# arccos turns a rounding of the cosine into one of the angle, which is of the order of 1 here.
SAME = 1e-9
log = logging.getLogger("benchmarks")


def arccosine(mlp: MLP, x: Tensor) -> float:
    """Return the angle by the usual recipe, which keeps the kernel and half of the digits."""
    k = empirical.ntk(mlp, x)
    norms = k.diagonal().sqrt()
    k.div_(norms[:, None]).div_(norms)
    return math.acos(float(k.fill_diagonal_(-1.0).max()))


def measure(settings: Settings) -> dict[str, Any]:
    """Return times and memory by size.

    Raises:
        DifferentResultError: if the recipe finds another angle.
    """
    size = 256 if settings.quick else GEMM_SIZE
    rates = gemm_rates(size=size, rounds=settings.rounds)
    shape = {"d": 8, "width": 16} if settings.quick else {}
    points = [
        measure_size(Problem(n, DEPTH, **shape), settings)
        for n in ((48, 96) if settings.quick else SIZES)
    ]
    return {
        "machine": machine.facts(settings.threads),
        "gemm_gflops": rates,
        "targets": target_rows(judge(points)),
        "points": points,
    }


def measure_size(problem: Problem, settings: Settings) -> dict[str, Any]:
    mlp, x = problem.network(), problem.data()
    log.info("%s", problem)
    methods = {"ours": stopwatch(lambda: empirical.min_angle(mlp, x))}
    found = empirical.min_angle(mlp, x)
    if problem.n <= LARGEST_KERNEL:
        difference = abs(arccosine(mlp, x) / found.angle - 1)
        require_near(f"{problem}: angles", difference, SAME)
        methods["arccosine"] = stopwatch(lambda: arccosine(mlp, x))
    seconds = interleaved(methods, rounds=settings.rounds)
    memory = peak("min_angle", threads=settings.threads, **asdict(problem))
    return {
        **asdict(problem),
        "angle": found.angle,
        "candidates": found.candidates,
        "seconds": seconds,
        "ratio": ratio(seconds["arccosine"], seconds["ours"]) if len(seconds) > 1 else None,
        "peak_bytes": None if memory is None else memory.growth,
        "process_bytes": None if memory is None else memory.process,
    }


def judge(points: list[dict[str, Any]]) -> list[Target]:
    """Return the targets, which are those of one size."""
    found = [point for point in points if point["n"] == JUDGED_SIZE]
    if not found:
        return []
    (point,) = found
    where = f"n {JUDGED_SIZE:,}, d {point['d']}, depth {DEPTH}"
    gigabytes = None if point["process_bytes"] is None else point["process_bytes"] / 1e9
    return [
        Target(f"time: {where}", "at most", 16, spread(point["seconds"]["ours"])["median"], " s"),
        Target(f"memory of the whole process: {where}", "at most", 1.5, gigabytes, " GB"),
    ]


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    first = result["points"][0]
    lines = [
        machine.sentence(result["machine"], result["gemm_gflops"]),
        "",
        f"All pairs of n Gaussian samples, d {first['d']}, width {first['width']}, depth "
        f"{first['depth']}, in float64.",
        "The recipe that keeps the kernel finds the same angle where it is of the order of 1, and",
        "0 below 1e-8. Memory is the peak of the whole process, and what the call added to it.",
        "",
        *target_table(result["targets"]),
        *table(
            ("n", "seconds", "by the kernel and arccos", "over ours", "process", "of it the call"),
            [
                (
                    f"{p['n']:,}",
                    spread_text(spread(p["seconds"]["ours"])),
                    *(
                        (
                            spread_text(spread(p["seconds"]["arccosine"])),
                            spread_text(p["ratio"]),
                        )
                        if p["ratio"]
                        else ("", "")
                    ),
                    gigabytes(p["process_bytes"]),
                    gigabytes(p["peak_bytes"]),
                )
                for p in result["points"]
            ],
        ),
    ]
    return "\n".join(lines)


def gigabytes(size: float | None) -> str:
    """Return a size in words, empty where it is not known."""
    return "" if size is None else f"{size / 1e9:.2f} GB"


def figure(result: dict[str, Any]) -> Figure:
    """Return the seconds and the memory by size."""
    points = result["points"]
    sizes = [p["n"] for p in points]
    drawn, (time, memory) = figures.canvas(columns=2)
    ends = []
    for name, label in LABELS.items():
        known = [p for p in points if name in p["seconds"]]
        spreads = [spread(p["seconds"][name]) for p in known]
        figures.spread_line(time, [p["n"] for p in known], spreads, color=COLORS[name])
        label = label.replace("`", "").replace("empirical.", "").replace(", then ", ",\nthen ")
        ends.append((known[-1]["n"], spreads[-1]["median"], label, COLORS[name]))
    time.set_yscale("log")
    time.set_ylabel("seconds")
    figures.plain_ticks(time, sizes, "samples n")
    label_line_ends(time, ends)
    if all(p["process_bytes"] is not None for p in points):
        memory.plot(sizes, [p["process_bytes"] / 1e9 for p in points], "o-", color=figures.OURS)
        kernels = [8e-9 * n * n for n in sizes]
        memory.plot(sizes, kernels, color="#D55E00")
        memory.annotate(
            "the kernel alone",
            (sizes[-1], kernels[-1]),
            xytext=(-8, -4),
            textcoords="offset points",
            ha="right",
            fontsize=7,
            color="#D55E00",
        )
        memory.set_ylim(0, max(kernels[-1], 1.6) * 1.05)
        figures.target_line(memory, 1.5)
        memory.annotate(
            "asked for at n = 20,000",
            (sizes[0], 1.5),
            xytext=(0, 2),
            textcoords="offset points",
            **NOTE,
        )
    memory.set_ylabel("process at its peak [GB]")
    figures.plain_ticks(memory, sizes, "samples n")
    return drawn
