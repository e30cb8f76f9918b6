"""The smallest gradient angle over all pairs, against the arccosine of the kernel's entries."""

import math
from dataclasses import asdict
from typing import Any

from torch import Tensor

from benchmarks.memory import peak_on
from benchmarks.problem import Problem, gemm_rates, require_near
from benchmarks.report import machine_facts, machine_sentence, spread_text, table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, spread, stopwatch
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks.mlp import MLP

TITLE = "The smallest gradient angle"
SIZES = (2500, 5000, 10000, 20000)
LARGEST_KERNEL = 10000
DEPTH = 5

# arccos turns a rounding of the cosine into one of the angle, which is of the order of 1 here.
SAME = 1e-9


def arccosine(mlp: MLP, x: Tensor) -> float:
    """Return the angle by the usual recipe, which keeps the kernel and half of the digits."""
    k = empirical.ntk(mlp, x)
    norms = k.diagonal().sqrt()
    k.div_(norms[:, None]).div_(norms)
    return math.acos(float(k.fill_diagonal_(-1.0).max()))


def measure(settings: Settings) -> dict[str, Any]:
    """Return times and memory by size.

    Raises:
        DifferentResultError: if the recipe returns another angle.
    """
    shape = {"d": 8, "width": 16} if settings.quick else {}
    sizes = (48, 96) if settings.quick else SIZES
    return {
        "machine": machine_facts(settings.threads),
        "gemm_gflops": gemm_rates(settings),
        "points": [measure_size(Problem(n, DEPTH, **shape), settings) for n in sizes],
    }


def measure_size(problem: Problem, settings: Settings) -> dict[str, Any]:
    mlp, x = problem.network(), problem.data()
    methods = {"ours": stopwatch(lambda: empirical.min_angle(mlp, x))}
    angle = empirical.min_angle(mlp, x).angle
    if problem.n <= LARGEST_KERNEL:
        require_near(f"{problem}: angles", abs(arccosine(mlp, x) / angle - 1), SAME)
        methods["arccosine"] = stopwatch(lambda: arccosine(mlp, x))
    seconds = interleaved(methods, rounds=settings.rounds)
    memory = peak_on(empirical.min_angle, problem, small=64, threads=settings.threads)
    return {
        **asdict(problem),
        "angle": angle,
        "seconds": seconds,
        "ratio": ratio(seconds["arccosine"], seconds["ours"]) if len(seconds) > 1 else None,
        "peak_bytes": memory and memory.growth,
        "process_bytes": memory and memory.process,
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    first = result["points"][0]
    rows = [
        (
            f"{p['n']:,}",
            spread_text(spread(p["seconds"]["ours"])),
            spread_text(spread(p["seconds"]["arccosine"])) if p["ratio"] else "",
            spread_text(p["ratio"]) if p["ratio"] else "",
            gigabytes(p["process_bytes"]),
            gigabytes(p["peak_bytes"]),
        )
        for p in result["points"]
    ]
    lines = [
        machine_sentence(result["machine"], result["gemm_gflops"]),
        "",
        f"All pairs of n Gaussian samples, d {first['d']}, width {first['width']}, depth "
        f"{first['depth']}, in float64.",
        "The recipe that keeps the kernel finds the same angle where it is of the order of 1, and",
        "0 below 1e-8. Memory is the peak of the whole process, and what the call added to it.",
        "",
        *table(
            ("n", "seconds", "by the kernel and arccos", "over ours", "process", "of it the call"),
            rows,
        ),
    ]
    return "\n".join(lines)


def gigabytes(size: float | None) -> str:
    """Return a size in words, empty where it is not known."""
    return "" if size is None else f"{size / 1e9:.2f} GB"
