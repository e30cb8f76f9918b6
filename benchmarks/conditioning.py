"""Extreme eigenvalues of a kernel against full spectra by SciPy, NumPy and torch."""

import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray

from benchmarks.memory import peak
from benchmarks.problem import Problem, gemm_rates, require_near
from benchmarks.report import machine_facts, machine_sentence, spread_text, table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratios, spread, stopwatch
from ntk_conditioning.kernels import empirical
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning

TITLE = "Condition numbers"
SAME = 1e-8
# The most rounds of each method by size: one or two where a call takes more than half a minute.
ALL = sys.maxsize
SIZES: dict[int, dict[str, int]] = {
    2000: {"ours": ALL, "scipy": ALL, "numpy": ALL, "torch": ALL, "numpy_eig": ALL},
    5000: {"ours": ALL, "scipy": ALL, "numpy": ALL, "torch": ALL},
    10000: {"ours": ALL, "scipy": 2, "numpy": 1, "torch": ALL},
}
QUICK = {96: {"ours": ALL, "scipy": ALL, "numpy": 1, "torch": 1, "numpy_eig": 1}}
KERNEL = {"depth": 3, "d": 5, "width": 512}
log = logging.getLogger("benchmarks")

Kernel = NDArray[np.float64]
Extremes = tuple[float, float]


def ours(k: Kernel, *, overwrite: bool = False) -> Extremes:
    result = extreme_conditioning(k, overwrite=overwrite)
    return result.lambda_max, result.lambda_min


def by_scipy(k: Kernel, *, overwrite: bool = False) -> Extremes:
    # LAPACK overwrites only matrices in column order; k is symmetric.
    return ends(scipy.linalg.eigvalsh(k.T, overwrite_a=overwrite, check_finite=False))


def ends(ascending: NDArray[np.float64]) -> Extremes:
    return float(ascending[-1]), float(ascending[0])


LABELS = {
    "ours": "`extreme_conditioning`",
    "scipy": "`scipy.linalg.eigvalsh`",
    "numpy": "`numpy.linalg.eigvalsh`",
    "torch": "`torch.linalg.eigvalsh`",
    "numpy_eig": "`numpy.linalg.eig`",
}
METHODS: dict[str, Callable[..., Extremes]] = {
    "ours": ours,
    "scipy": by_scipy,
    "numpy": lambda k: ends(np.linalg.eigvalsh(k)),
    "torch": lambda k: ends(torch.linalg.eigvalsh(torch.from_numpy(k)).numpy()),
    "numpy_eig": lambda k: ends(np.sort(np.linalg.eig(k).eigenvalues.real)),
}


def measure(settings: Settings) -> dict[str, Any]:
    """Return times, memory and agreement of all methods by size.

    Raises:
        DifferentResultError: if a method's extreme eigenvalues are not those of SciPy.
    """
    sizes = QUICK if settings.quick else SIZES
    return {
        "machine": machine_facts(settings.threads),
        "gemm_gflops": gemm_rates(settings),
        "kernel": KERNEL,
        "points": [measure_size(n, most, settings) for n, most in sizes.items()],
    }


def measure_size(n: int, most: dict[str, int], settings: Settings) -> dict[str, Any]:
    """Return the measurements of one kernel; ``most`` rounds of each method."""
    problem = Problem(n, **KERNEL)
    x = torch.nn.functional.normalize(problem.data())
    k = empirical.ntk(problem.network(), x).numpy()
    log.info("kernel of %d samples", n)
    extremes: dict[str, Extremes] = {}

    def timed(name: str) -> Callable[[], float]:
        METHODS[name](k[:64, :64].copy())  # warms up
        return stopwatch(lambda: extremes.update({name: METHODS[name](k)}))

    seconds = interleaved({name: timed(name) for name in most}, rounds=settings.rounds, most=most)
    return {
        "n": n,
        "lambda_max": extremes["scipy"][0],
        "lambda_min": extremes["scipy"][1],
        "differences": {
            name: require_same(LABELS[name], values, extremes["scipy"])
            for name, values in extremes.items()
            if name != "scipy"
        },
        "seconds": seconds,
        "ratios": ratios(seconds, "ours"),
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
    """Return the peaks of methods over the size of ``k``, which is counted."""
    peaks: dict[str, float | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.npy"
        np.save(file, k)
        for method in methods[: 1 if settings.quick else None]:
            measured = peak(prepare, method, file, threads=settings.threads)
            peaks[method] = measured and 1 + measured.growth / k.nbytes
    return peaks


def prepare(method: str, file: Path) -> Callable[[], object]:
    """Return the call whose memory is measured, after a small one; it may overwrite the kernel."""
    k = np.load(file)
    options = {"overwrite": True} if method in ("ours", "scipy") else {}
    METHODS[method](k[:64, :64].copy(), **options)
    return lambda: METHODS[method](k, **options)


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    about = result["kernel"]
    lines = [
        machine_sentence(result["machine"], result["gemm_gflops"]),
        "",
        f"The kernel is the NTK of a network of depth {about['depth']} and width {about['width']}",
        f"on Gaussian samples of unit norm in {about['d']} dimensions, in float64. Ours returns",
        "the two extremes, the others the whole spectrum; `eig` is the general solver. The median",
        "is over the rounds that the table states, a ratio over those that both methods have.",
        "Memory counts K itself, which the methods that can may overwrite.",
        "",
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
