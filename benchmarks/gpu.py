"""On a CUDA device: the empirical kernel, its extreme eigenvalues and the smallest angle."""

import logging
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.problem import Problem, gemm, require_near, require_same_kernel
from benchmarks.report import machine_facts, machine_sentence, spread_text, table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, spread, stopwatch
from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks.mlp import MLP
from ntk_conditioning.spectra.condition_numbers import conditioning
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning

TITLE = "Kernel, extreme eigenvalues and smallest angle on a GPU"
SIZES = (512, 8192, 60000)
BLOCKS = (512, 1024, 2048, 4096)
DTYPES = ("float64", "float32")
DEPTH = 10
GEMM_SIZE = 8192  # a product of half that side does not fill a large device
COMPARED = 512  # samples up to which the processor's results are waited for
SAME_ANGLE = 1e-7
# In float32 rounding hides the smallest eigenvalue, and the rank is found on the host.
MOST_SINGLE = 8192
EXTREMES_FROM = 2048  # samples from which a block has no whole spectrum
COLUMNS = ("n", "", "the kernel, seconds", "share of the GEMM rate", "GEMM, GFLOP/s")
COLUMNS += ("with both extremes, seconds", "peak memory / K", "the angle, seconds")
WORKS = ("kernel", "extremes", "angle")
log = logging.getLogger("benchmarks")


class NoDeviceError(UserError):
    """There is no CUDA device."""


def measure(settings: Settings, *, device: str = "cuda") -> dict[str, Any]:
    """Return times and memory of all sizes in both types.

    Raises:
        NoDeviceError: if there is none.
        DifferentResultError: if the device's results are not the processor's.
    """
    require_device(device)
    torch.set_float32_matmul_precision("highest")
    size = 256 if settings.quick else GEMM_SIZE
    shape = {"d": 8, "width": 16} if settings.quick else {}
    sizes, blocks = ((48, 96), (48, 96)) if settings.quick else (SIZES, BLOCKS)
    points = []
    for problem in [Problem(n, DEPTH, dtype, **shape) for dtype in DTYPES for n in sizes]:
        try:
            points.append(measure_problem(problem, settings, device=device, gemm_size=size))
        except torch.OutOfMemoryError as error:
            log.warning("%s is left out: %s", problem, error)
    return {
        "machine": machine_facts(settings.threads),
        "device": device_facts(device),
        "points": points,
        "blocks": [measure_block(n, settings, device=device) for n in blocks],
    }


def require_device(device: str) -> None:
    """Raise `NoDeviceError` if there is no such device."""
    if device == "cuda" and not torch.cuda.is_available():
        raise NoDeviceError("there is no CUDA device here, so nothing is measured")


def measure_problem(
    problem: Problem, settings: Settings, *, device: str, gemm_size: int
) -> dict[str, Any]:
    """Return the measurements of one problem."""
    log.info("%s on %s", problem, device)
    mlp, x = problem.network(device), problem.data(device)
    differences = compare(problem, mlp, x) if problem.n <= COMPARED else None
    works: dict[str, Callable[[], object]] = {
        "kernel": lambda: empirical.ntk(mlp, x),
        "extremes": lambda: extreme_conditioning(empirical.ntk(mlp, x), overwrite=True),
        "angle": lambda: empirical.min_angle(mlp, x),
    }
    if problem.dtype == "float32" and problem.n > MOST_SINGLE:
        del works["extremes"]
    works = {name: complete(work, device) for name, work in works.items()}
    product = complete(gemm(problem.dtype, size=gemm_size, device=device), device)
    product()
    peaks = {name: peak_bytes(work, device) for name, work in works.items()}  # these warm up
    seconds = interleaved(
        {name: stopwatch(work) for name, work in {"gemm": product, **works}.items()},
        rounds=settings.rounds,
    )
    gemm_flops = 2 * gemm_size**3
    products = seconds.pop("gemm")
    return {
        **asdict(problem),
        "seconds": seconds,
        "gemm_gflops": spread(1e-9 * gemm_flops / s for s in products),
        "fraction_of_gemm_rate": ratio(
            products, seconds["kernel"], factor=problem.flops / gemm_flops
        ),
        "peak_over_kernel": {n: p and p / problem.kernel_bytes for n, p in peaks.items()},
        "differences": differences,
    }


def measure_block(n: int, settings: Settings, *, device: str) -> dict[str, Any]:
    """Return the seconds of a kernel and its condition number on the device and the processor."""
    log.info("a block of %d samples on %s and on the processor", n, device)
    problem = Problem(n, DEPTH, **({"d": 8, "width": 16} if settings.quick else {}))
    methods = {
        name: stopwatch(partial(condition_block, problem.network(place), problem.data(place)))
        for name, place in (("device", device), ("processor", "cpu"))
    }
    for timed in methods.values():
        timed()
    seconds = interleaved(methods, rounds=settings.rounds)
    over = ratio(seconds["processor"], seconds["device"])
    return {"n": n, "depth": DEPTH, "seconds": seconds, "processor_over_device": over}


def condition_block(mlp: MLP, x: Tensor) -> object:
    """Return the conditioning as `compute_spectrum` does: of large blocks only the extremes."""
    k = empirical.ntk(mlp, x)
    if len(x) >= EXTREMES_FROM:
        return extreme_conditioning(k, overwrite=True)
    return conditioning(k.numpy(force=True))


def compare(problem: Problem, mlp: MLP, x: Tensor) -> dict[str, float]:
    """Return how far the device's results are from the processor's.

    Raises:
        DifferentResultError: if that is more than rounding.
    """
    model, samples = problem.network(), problem.data()
    k = empirical.ntk(mlp, x)
    found = k.numpy(force=True)
    differences = require_same_kernel(
        f"the device at {problem}", found, empirical.ntk(model, samples).numpy()
    )
    # Of one and the same kernel: what types do to it was compared just now.
    ours, whole = extreme_conditioning(k), conditioning(found)
    require_near(f"{problem}: ranks", abs(ours.numerical_rank - whole.numerical_rank), 0)
    bound = ours.lambda_max_error / ours.lambda_max + whole.lambda_max_error / whole.lambda_max
    differences["extremes"] = abs(ours.lambda_max / whole.lambda_max - 1)
    if ours.kappa is not None and whole.kappa is not None:
        bound = (ours.kappa_error or 0.0) + (whole.kappa_error or 0.0)
        differences["extremes"] = abs(ours.kappa / whole.kappa - 1)
    expected = empirical.min_angle(model, samples).angle
    differences["angle"] = abs(empirical.min_angle(mlp, x).angle / expected - 1)
    for name, allowed in (("extremes", bound), ("angle", SAME_ANGLE)):
        require_near(f"{problem}: {name}", differences[name], allowed)
    return differences


def complete(function: Callable[[], object], device: str) -> Callable[[], object]:
    """Return a call that waits until the device has done its work."""

    def waited() -> object:
        result = function()
        if device == "cuda":
            torch.cuda.synchronize()
        return result

    return waited


def peak_bytes(function: Callable[[], object], device: str) -> int | None:
    """Return by how much a call raises the peak of what is allocated on the device."""
    if device != "cuda":
        function()
        return None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    function()
    return torch.cuda.max_memory_allocated() - before


def device_facts(device: str) -> dict[str, Any]:
    """Return the device's name, memory and version."""
    if device != "cuda":
        return {"name": device}
    about = torch.cuda.get_device_properties(0)
    memory_gb = about.total_memory / 1e9
    return {"name": about.name, "memory_gb": memory_gb, "cuda": torch.version.cuda}


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    device, first = result["device"], result["points"][0]
    memory = f", {device['memory_gb']:.0f} GB, CUDA {device['cuda']}" if "cuda" in device else ""
    blocks = [
        (
            f"{block['n']:,}",
            *(spread_text(spread(taken)) for taken in block["seconds"].values()),
            spread_text(block["processor_over_device"]),
        )
        for block in result["blocks"]
    ]
    lines = [
        f"{device['name']}{memory}; torch {result['machine']['versions']['torch']}.",
        "",
        f"d {first['d']}, width {first['width']}, depth {first['depth']}; float32 without TF32.",
        f"Up to {COMPARED} samples all results are compared with the processor's before they are",
        "timed. For the extreme eigenvalues the kernel is computed and factored each time;",
        "the angle, over all pairs, is that of float64 in any case. Memory is the",
        "growth of the peak of what is allocated on the device, K included. In float32 rounding",
        "hides the smallest eigenvalue; the rank is then found on the host, measured up to",
        f"n = {MOST_SINGLE:,}. Rounds: {len(first['seconds']['kernel'])}.",
        "",
        *table(COLUMNS, [_row(point) for point in result["points"]]),
        "One block as `compute_spectrum` does it, depth "
        f"{DEPTH}, float64; of {EXTREMES_FROM:,} samples or more only the extremes.",
        "The processor: " + machine_sentence(result["machine"]),
        "",
        *table(("n", "device, seconds", "processor, seconds", "processor over device"), blocks),
    ]
    return "\n".join(lines)


def _row(point: dict[str, Any]) -> list[str]:
    seconds = {name: spread_text(spread(taken)) for name, taken in point["seconds"].items()}
    peak = point["peak_over_kernel"].get("extremes")
    return [
        f"{point['n']:,}",
        point["dtype"],
        seconds["kernel"],
        spread_text(point["fraction_of_gemm_rate"], 2),
        f"{point['gemm_gflops']['median']:,.0f}",
        seconds.get("extremes", ""),
        "" if peak is None else f"{peak:.2f}",
        seconds["angle"],
    ]
