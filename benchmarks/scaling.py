"""The empirical kernel by number of samples and by depth: time, memory, share of the GEMM rate."""

import logging
from dataclasses import asdict
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks import figures, machine
from benchmarks.memory import peak
from benchmarks.problem import GEMM_SIZE, Problem, gemm, gemm_rates
from benchmarks.report import Target, spread_text, table, target_rows, target_table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, spread, stopwatch
from ntk_conditioning.kernels import empirical

TITLE = "Scaling of the kernel in samples and depth"
SIZES = (512, 1024, 2048, 4096, 8192, 16384)
DEPTHS = (1, 2, 5, 10)
DEPTH_AT_SIZES = 5
SIZE_AT_DEPTHS = 2048
JUDGED_SIZE = 8192
log = logging.getLogger("benchmarks")


def problems(settings: Settings) -> list[Problem]:
    """Return the problems: all sizes at one depth, then all depths at one size."""
    if settings.quick:
        tiny = [(32, 2), (64, 2), (32, 1)]
        return [Problem(n, depth, d=8, width=16) for n, depth in tiny]
    asked = [(n, DEPTH_AT_SIZES) for n in SIZES] + [(SIZE_AT_DEPTHS, depth) for depth in DEPTHS]
    return [Problem(n, depth) for n, depth in dict.fromkeys(asked)]


def measure(settings: Settings) -> dict[str, Any]:
    """Return times by round, peak memory and rates of all problems."""
    size = 256 if settings.quick else GEMM_SIZE
    asked = problems(settings)
    rates = gemm_rates(size=size, rounds=settings.rounds)
    product = gemm("float64", size=size)
    methods = {"gemm": stopwatch(product)}
    for problem in asked:
        mlp, x = problem.network(), problem.data()
        methods[str(problem)] = stopwatch(lambda mlp=mlp, x=x: empirical.ntk(mlp, x))
    for timed in list(methods.values())[:-1]:  # the rounds are warm; largest last, without
        timed()
    seconds = interleaved(methods, rounds=settings.rounds)
    points = []
    for problem in asked:
        share = problem.flops / (2 * size**3)
        memory = peak("ntk", threads=settings.threads, **asdict(problem))
        points.append(
            {
                **asdict(problem),
                "seconds": seconds[str(problem)],
                "fraction_of_gemm_rate": ratio(
                    seconds["gemm"], seconds[str(problem)], factor=share
                ),
                "peak_bytes": None if memory is None else memory.growth,
                "peak_over_kernel": None
                if memory is None
                else memory.growth / problem.kernel_bytes,
            }
        )
        log.info("%s: peak %s of the kernel", problem, points[-1]["peak_over_kernel"])
    return {
        "machine": machine.facts(settings.threads),
        "gemm_gflops": rates,
        "gemm_seconds": seconds["gemm"],
        "targets": target_rows(judge(points)),
        "exponent": exponent(points),
        "points": points,
    }


def exponent(points: list[dict[str, Any]]) -> dict[str, float | None]:
    """Return the slopes of log seconds over log n by least squares: all sizes, the larger half."""
    line = of_depth(points)
    n, y = np.log([p["n"] for p in line]), np.log([np.median(p["seconds"]) for p in line])
    half = len(line) // 2
    return {
        "all": float(np.polyfit(n, y, 1)[0]),
        "larger_half": float(np.polyfit(n[half:], y[half:], 1)[0]) if len(n) - half > 1 else None,
    }


def of_depth(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the points at the depth of the sizes, by size."""
    depth = points[0]["depth"]
    return sorted((p for p in points if p["depth"] == depth), key=lambda p: p["n"])


def of_size(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the points at the size of the depths, by depth."""
    return sorted((p for p in points if p["n"] == points[-1]["n"]), key=lambda p: p["depth"])


def judge(points: list[dict[str, Any]]) -> list[Target]:
    """Return the targets, which are those of one point."""
    found = [p for p in points if (p["n"], p["depth"]) == (JUDGED_SIZE, DEPTH_AT_SIZES)]
    if not found:
        return []
    (point,) = found
    where = f"n {JUDGED_SIZE:,}, depth {DEPTH_AT_SIZES}, float64"
    return [
        Target(
            f"rate of the needed operations over the matrix product's: {where}",
            "at least",
            0.75,
            point["fraction_of_gemm_rate"]["median"],
        ),
        Target(
            f"peak memory over the kernel's size: {where}",
            "at most",
            1.6,
            point["peak_over_kernel"],
            " ×",
        ),
    ]


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    slopes = result["exponent"]
    first = result["points"][0]
    larger = f"; {slopes['larger_half']:.2f} over the larger half" if slopes["larger_half"] else ""
    lines = [
        machine.sentence(result["machine"], result["gemm_gflops"]),
        "",
        f"`empirical.ntk` in {first['dtype']}, d {first['d']}, width {first['width']}. The",
        "operations are those that no method can avoid (one pass each way, half of each n × n",
        "product), their rate is compared with that of the product called in the same round.",
        "Memory is the growth of the resident set's peak in a process of its own, K included.",
        "",
        *target_table(result["targets"]),
        f"Seconds grow as n to the power {slopes['all']:.2f}{larger}.",
        "",
        *table(
            ("n", "depth", "seconds", "share of the GEMM rate", "peak memory / K"),
            [
                (
                    f"{p['n']:,}",
                    p["depth"],
                    spread_text(spread(p["seconds"])),
                    spread_text(p["fraction_of_gemm_rate"], 2),
                    "" if p["peak_over_kernel"] is None else f"{p['peak_over_kernel']:.2f}",
                )
                for p in (*of_depth(result["points"]), *of_size(result["points"]))
            ],
        ),
    ]
    return "\n".join(lines)


def figure(result: dict[str, Any]) -> Figure:
    """Return time, share of the GEMM rate and memory by size, and time by depth."""
    line, depths = of_depth(result["points"]), of_size(result["points"])
    sizes = [p["n"] for p in line]
    drawn, (time, share, memory, deep) = figures.canvas(rows=2, columns=2)
    figures.spread_line(time, sizes, [spread(p["seconds"]) for p in line], color=figures.OURS)
    rate = 1e9 * result["gemm_gflops"][line[0]["dtype"]]["median"]
    bound = [Problem(**{k: p[k] for k in ("n", "d", "width", "depth")}).flops / rate for p in line]
    time.plot(sizes, bound, color="#8a8a8a", **figures.DASHED)
    figures.note(time, "needed operations at the GEMM rate")
    time.text(
        0.04,
        0.94,
        f"measured: $n^{{{result['exponent']['all']:.2f}}}$",
        transform=time.transAxes,
        va="top",
        color=figures.OURS,
    )
    time.set_yscale("log")
    time.set_ylabel("seconds")
    time.set_title(f"Time, depth {line[0]['depth']}")

    shares = [p["fraction_of_gemm_rate"] for p in line]
    figures.spread_line(share, sizes, shares, color=figures.OURS)
    share.set_ylim(0, 1)
    share.set_ylabel("share of the GEMM rate")
    share.set_title(f"Rate, depth {line[0]['depth']}")
    figures.target_line(share, 0.75)
    figures.note(share, "asked for at n = 8,192")

    if all(p["peak_over_kernel"] is not None for p in line):
        memory.plot(sizes, [p["peak_over_kernel"] for p in line], "o-", color=figures.OURS)
        memory.set_yscale("log")
        memory.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"], minor=False)
        memory.tick_params(axis="y", which="minor", labelleft=False)
        memory.set_ylim(bottom=0.9)
        figures.target_line(memory, 1.6)
        figures.note(memory, "asked for at n = 8,192", top=True)
    memory.set_ylabel("peak memory / size of K")
    memory.set_title(f"Memory, depth {line[0]['depth']}")
    for ax in (time, share, memory):
        figures.plain_ticks(ax, sizes, "samples n")

    figures.spread_line(
        deep,
        [p["depth"] for p in depths],
        [spread(p["seconds"]) for p in depths],
        color=figures.OURS,
    )
    deep.set_xlabel("depth $L$ (hidden layers)")
    deep.set_xticks([p["depth"] for p in depths])
    deep.set_ylim(bottom=0)
    deep.set_ylabel("seconds")
    deep.set_title(f"Time, n = {depths[0]['n']:,}")
    return drawn
