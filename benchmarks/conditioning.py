"""Extreme eigenvalues of a kernel against full spectra by SciPy, NumPy and torch."""

import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from benchmarks import figures, machine
from benchmarks.memory import peak
from benchmarks.problem import GEMM_SIZE, Problem, gemm_rates, require_near
from benchmarks.report import Target, spread_text, table, target_rows, target_table
from benchmarks.settings import Settings
from benchmarks.solvers import METHODS, Extremes, Kernel
from benchmarks.timing import interleaved, ratio, spread, stopwatch
from ntk_conditioning.kernels import empirical
from ntk_conditioning.plotting import label_line_ends

TITLE = "Condition numbers"
SAME = 1e-8
LABELS = {
    "ours": "`extreme_conditioning`",
    "scipy": "`scipy.linalg.eigvalsh`",
    "numpy": "`numpy.linalg.eigvalsh`",
    "torch": "`torch.linalg.eigvalsh`",
    "numpy_eig": "`numpy.linalg.eig`",
}
# The most rounds of each method by size: one or two where a call takes more than half a minute.
ALL = sys.maxsize
SIZES: dict[int, dict[str, int]] = {
    2000: {"ours": ALL, "scipy": ALL, "numpy": ALL, "torch": ALL, "numpy_eig": ALL},
    5000: {"ours": ALL, "scipy": ALL, "numpy": ALL, "torch": ALL},
    10000: {"ours": ALL, "scipy": 2, "numpy": 1, "torch": ALL},
}
QUICK = {96: {"ours": ALL, "scipy": ALL, "numpy_eig": 1}}
JUDGED_SIZE = 10000
KERNEL = {"depth": 3, "d": 5, "width": 512}
log = logging.getLogger("benchmarks")


def kernel(n: int) -> Kernel:
    """Return the NTK (n, n) on Gaussian samples of unit norm."""
    problem = Problem(n, **KERNEL)
    x = problem.data()
    return empirical.ntk(problem.network(), x / torch.linalg.vector_norm(x, dim=1)[:, None]).numpy()


def measure(settings: Settings) -> dict[str, Any]:
    """Return times, memory and agreement of all methods by size.

    Raises:
        DifferentResultError: if a method's extreme eigenvalues are not those of the reference.
    """
    size = 256 if settings.quick else GEMM_SIZE
    rates = gemm_rates(size=size, rounds=settings.rounds)
    sizes = QUICK if settings.quick else SIZES
    points = [measure_size(n, most, settings) for n, most in sizes.items()]
    return {
        "machine": machine.facts(settings.threads),
        "gemm_gflops": rates,
        "targets": target_rows(judge(points)),
        "kernel": KERNEL,
        "points": points,
    }


def measure_size(n: int, most: dict[str, int], settings: Settings) -> dict[str, Any]:
    """Return the measurements of one kernel; ``most`` rounds of each method."""
    k = kernel(n)
    log.info("kernel of %d samples", n)
    found: dict[str, Extremes] = {}
    for name in most:  # warm, on a kernel that takes no time
        METHODS[name](k[:64, :64].copy())
    methods = {}
    for name in most:

        def call(name: str = name) -> None:
            found[name] = METHODS[name](k)

        methods[name] = stopwatch(call)
    seconds = interleaved(methods, rounds=settings.rounds, most=most)
    return {
        "n": n,
        "lambda_max": found["scipy"][0],
        "lambda_min": found["scipy"][1],
        "differences": {
            name: require_same(LABELS[name], values, found["scipy"])
            for name, values in found.items()
            if name != "scipy"
        },
        "seconds": seconds,
        "ratios": {
            name: ratio(taken, seconds["ours"]) for name, taken in seconds.items() if name != "ours"
        },
        "peak_over_kernel": memory(k, [m for m in most if m != "numpy_eig"], settings),
    }


def require_same(name: str, values: Extremes, reference: Extremes) -> float:
    """Return the larger relative difference of the two extremes.

    Raises:
        DifferentResultError: if it is more than 1e-8.
    """
    difference = max(abs(a / b - 1) for a, b in zip(values, reference, strict=True))
    require_near(f"{name}: extreme eigenvalues", difference, SAME)
    return difference


def memory(k: Kernel, methods: list[str], settings: Settings) -> dict[str, float | None]:
    """Return the peaks of methods over the size of ``k``, which is counted and may be lost."""
    if settings.quick:
        methods = methods[:1]
    peaks: dict[str, float | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.npy"
        np.save(file, k)
        for method in methods:
            found = peak("conditioning", threads=settings.threads, method=method, kernel=str(file))
            peaks[method] = None if found is None else 1 + found.growth / k.nbytes
            log.info("%s: peak memory %s of the kernel", method, peaks[method])
    return peaks


def judge(points: list[dict[str, Any]]) -> list[Target]:
    """Return the targets, which are those of one size."""
    found = [point for point in points if point["n"] == JUDGED_SIZE]
    if not found:
        return []
    (point,) = found
    where = f"n {JUDGED_SIZE:,}, float64"
    ratios = {name: values["median"] for name, values in point["ratios"].items()}
    return [
        Target(f"{LABELS['scipy']} over ours: {where}", "at least", 5, ratios["scipy"], " ×"),
        Target(f"{LABELS['torch']} over ours: {where}", "at least", 2.5, ratios["torch"], " ×"),
        Target(
            f"relative difference from {LABELS['scipy']}: {where}",
            "at most",
            SAME,
            point["differences"]["ours"],
        ),
        Target(
            f"peak memory over the kernel's size, K included: {where}",
            "at most",
            1.3,
            point["peak_over_kernel"]["ours"],
            " ×",
        ),
    ]


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    about = result["kernel"]
    lines = [
        machine.sentence(result["machine"], result["gemm_gflops"]),
        "",
        f"The kernel is the NTK of a network of depth {about['depth']} and width {about['width']}",
        f"on Gaussian samples of unit norm in {about['d']} dimensions, in float64. Ours returns",
        "the two extremes, the others the whole spectrum; `eig` is the general solver. The median",
        "is over the rounds that the table states, a ratio over those that both methods have.",
        "Memory counts K itself, which the methods that can may overwrite.",
        "",
        *target_table(result["targets"]),
    ]
    rows = []
    for point in result["points"]:
        kappa = point["lambda_max"] / point["lambda_min"]
        for name, taken in point["seconds"].items():
            peak_size = point["peak_over_kernel"].get(name)
            difference = point["differences"].get(name)
            rows.append(
                (
                    f"{point['n']:,} (κ {kappa:.1e})" if name == "ours" else "",
                    LABELS[name],
                    spread_text(spread(taken)),
                    len(taken),
                    spread_text(point["ratios"][name]) if name in point["ratios"] else "1",
                    "" if difference is None else f"{difference:.0e}",
                    "" if peak_size is None else f"{peak_size:.2f}",
                )
            )
    head = ("n", "", "seconds", "rounds", "over ours", "difference from SciPy", "peak memory / K")
    return "\n".join(lines + table(head, rows))


def figure(result: dict[str, Any]) -> Figure:
    """Return the seconds of each method by size."""
    points = result["points"]
    drawn, (ax,) = figures.canvas(height=2.8)
    ends = []
    for name in METHODS:
        known = [p for p in points if name in p["seconds"]]
        if not known:
            continue
        color = figures.COLORS[name]
        spreads = [spread(p["seconds"][name]) for p in known]
        figures.spread_line(ax, [p["n"] for p in known], spreads, color=color)
        last = (known[-1]["n"], spreads[-1]["median"])
        label = LABELS[name].replace("`", "")
        if len(known) == len(points):
            ends.append((*last, label, color))
        else:
            at = {"xytext": (5, -2), "textcoords": "offset points"}
            ax.annotate(label, last, fontsize=7, color=color, **at)
    ax.set_yscale("log")
    ax.set_ylabel("seconds")
    figures.plain_ticks(ax, [p["n"] for p in points], "samples n")
    label_line_ends(ax, ends, fontsize=7)
    return drawn
