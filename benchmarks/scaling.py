"""The empirical kernel by number of samples and by depth: time, memory, share of the GEMM rate."""

from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.memory import peak_on
from benchmarks.problem import Problem, gemm, gemm_rates, gemm_size
from benchmarks.report import machine_facts, machine_sentence, spread_text, table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, spread, stopwatch
from ntk_conditioning.kernels import empirical

TITLE = "Scaling of the kernel in samples and depth"
SIZES = (512, 1024, 2048, 4096, 8192, 16384)
DEPTHS = (1, 2, 5, 10)
DEPTH_AT_SIZES = 5
SIZE_AT_DEPTHS = 2048


def problems(settings: Settings) -> list[Problem]:
    """Return the problems: all sizes at one depth, then all depths at one size."""
    if settings.quick:
        return [Problem(n, depth, d=8, width=16) for n, depth in ((32, 2), (64, 2), (32, 1))]
    pairs = [(n, DEPTH_AT_SIZES) for n in SIZES] + [(SIZE_AT_DEPTHS, depth) for depth in DEPTHS]
    return [Problem(n, depth) for n, depth in dict.fromkeys(pairs)]


def measure(settings: Settings) -> dict[str, Any]:
    """Return times by round, peak memory and rates of all problems."""
    rates = gemm_rates(settings)
    size = gemm_size(settings)
    methods = {"gemm": stopwatch(gemm("float64", size=size))}
    for problem in problems(settings):
        mlp, x = problem.network(), problem.data()
        methods[str(problem)] = stopwatch(lambda mlp=mlp, x=x: empirical.ntk(mlp, x))
    for timed in list(methods.values())[:-1]:  # warms up
        timed()
    seconds = interleaved(methods, rounds=settings.rounds)
    points = []
    for problem in problems(settings):
        taken, share = seconds[str(problem)], problem.flops / (2 * size**3)
        memory = peak_on(empirical.ntk, problem, small=64, threads=settings.threads)
        points.append(
            {
                **asdict(problem),
                "seconds": taken,
                "fraction_of_gemm_rate": ratio(seconds["gemm"], taken, factor=share),
                "peak_over_kernel": memory and memory.growth / problem.kernel_bytes,
            }
        )
    return {
        "machine": machine_facts(settings.threads),
        "gemm_gflops": rates,
        "gemm_seconds": seconds["gemm"],
        "points": points,
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    points = result["points"]
    first, last = points[0], points[-1]
    by_size = sorted((p for p in points if p["depth"] == first["depth"]), key=lambda p: p["n"])
    by_depth = sorted((p for p in points if p["n"] == last["n"]), key=lambda p: p["depth"])
    sizes, medians = [p["n"] for p in by_size], [np.median(p["seconds"]) for p in by_size]
    exponent = np.polyfit(np.log(sizes), np.log(medians), 1)[0]
    rows = [
        (
            f"{p['n']:,}",
            p["depth"],
            spread_text(spread(p["seconds"])),
            spread_text(p["fraction_of_gemm_rate"], 2),
            "" if p["peak_over_kernel"] is None else f"{p['peak_over_kernel']:.2f}",
        )
        for p in (*by_size, *by_depth)
    ]
    lines = [
        machine_sentence(result["machine"], result["gemm_gflops"]),
        "",
        f"`empirical.ntk` in {first['dtype']}, d {first['d']}, width {first['width']}. The",
        "operations are those that no method can avoid (one pass each way, half of each n × n",
        "product), their rate is compared with that of the product called in the same round.",
        "Memory is the growth of the resident set's peak in a process of its own, K included.",
        "",
        f"Seconds grow as n to the power {exponent:.2f}.",
        "",
        *table(("n", "depth", "seconds", "share of the GEMM rate", "peak memory / K"), rows),
    ]
    return "\n".join(lines)
