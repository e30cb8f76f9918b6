"""The empirical kernel on a CUDA device: time, memory and share of the GEMM rate, in two types."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from matplotlib.figure import Figure

from benchmarks import figures, machine
from benchmarks.problem import Problem, gemm, require_same_kernel
from benchmarks.report import spread_text, table
from benchmarks.settings import Settings
from benchmarks.timing import interleaved, ratio, spread, stopwatch
from ntk_conditioning import empirical
from ntk_conditioning.errors import UserError
from ntk_conditioning.plotting import label_line_ends

TITLE = "The kernel on a GPU"
SIZES = (512, 8192, 32768, 60000)
DTYPES = ("float64", "float32")
DEPTH = 5
GEMM_SIZE = 8192  # a product of half that side does not fill a large device
COLORS = {"float64": figures.OURS, "float32": "#D55E00"}
log = logging.getLogger("benchmarks")


class NoDeviceError(UserError):
    """There is no CUDA device."""


def measure(settings: Settings, *, device: str = "cuda") -> dict[str, Any]:
    """Return times and memory of all sizes in both types.

    Raises:
        NoDeviceError: if there is none.
        DifferentResultError: if the device's kernel is not the processor's.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise NoDeviceError("there is no CUDA device here, so nothing is measured")
    torch.set_float32_matmul_precision("highest")
    size = 256 if settings.quick else GEMM_SIZE
    points, missing = [], {}
    for dtype in DTYPES:
        for n in (48, 96) if settings.quick else SIZES:
            shape = {"d": 8, "width": 16} if settings.quick else {}
            problem = Problem(n, DEPTH, dtype, **shape)
            try:
                points.append(measure_problem(problem, settings, device=device, gemm_size=size))
            except torch.OutOfMemoryError as error:
                log.warning("%s is left out: %s", problem, error)
                missing[str(problem)] = "the device's memory does not hold it"
    return {
        "machine": machine.facts(settings.threads),
        "device": device_facts(device),
        "targets": [],
        "points": points,
        "missing": missing,
    }


def measure_problem(
    problem: Problem, settings: Settings, *, device: str, gemm_size: int
) -> dict[str, Any]:
    """Return the measurements of one problem."""
    log.info("%s on %s", problem, device)
    mlp, x = problem.network(device), problem.data(device)
    differences = None
    if problem.n <= 512:
        reference = empirical.ntk(problem.network(), problem.data()).numpy()
        found = empirical.ntk(mlp, x).numpy(force=True)
        differences = require_same_kernel(f"the device at {problem}", found, reference)
    product = complete(gemm(problem.dtype, size=gemm_size, device=device), device)
    kernel = complete(lambda: empirical.ntk(mlp, x), device)
    product()
    peak = peak_bytes(kernel, device)  # the call that warms up
    seconds = interleaved(
        {"gemm": stopwatch(product), "ours": stopwatch(kernel)}, rounds=settings.rounds
    )
    gemm_flops = 2 * gemm_size**3
    return {
        **asdict(problem),
        "seconds": seconds["ours"],
        "gemm_gflops": spread(1e-9 * gemm_flops / s for s in seconds["gemm"]),
        "fraction_of_gemm_rate": ratio(
            seconds["gemm"], seconds["ours"], factor=problem.flops / gemm_flops
        ),
        "peak_over_kernel": None if peak is None else peak / problem.kernel_bytes,
        "differences": differences,
    }


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
    return {
        "name": about.name,
        "memory_gb": about.total_memory / 1e9,
        "cuda": torch.version.cuda,
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the section of benchmarks/README.md."""
    device, first = result["device"], result["points"][0]
    memory = f", {device['memory_gb']:.0f} GB, CUDA {device['cuda']}" if "cuda" in device else ""
    lines = [
        f"{device['name']}{memory}; torch {result['machine']['versions']['torch']}.",
        "",
        f"`empirical.ntk`, d {first['d']}, width {first['width']}, depth {first['depth']}; float32",
        "without TF32. The first size is compared with the processor's kernel before it is timed.",
        "Memory is the growth of the peak of what is allocated on the device, K included.",
        "",
        *table(
            ("n", "", "seconds", "GEMM, GFLOP/s", "share of the GEMM rate", "peak memory / K"),
            [
                (
                    f"{p['n']:,}",
                    p["dtype"],
                    spread_text(spread(p["seconds"])),
                    f"{p['gemm_gflops']['median']:,.0f}",
                    spread_text(p["fraction_of_gemm_rate"], 2),
                    "" if p["peak_over_kernel"] is None else f"{p['peak_over_kernel']:.2f}",
                )
                for p in result["points"]
            ],
        ),
        *(f"Not measured: {problem}, for {why}.\n" for problem, why in result["missing"].items()),
    ]
    return "\n".join(lines)


def figure(result: dict[str, Any]) -> Figure:
    """Return time and share of the GEMM rate by size, in both types."""
    drawn, (time, share) = figures.canvas(columns=2)
    ends: dict[str, list[Any]] = {"time": [], "share": []}
    for dtype in DTYPES:
        line = [p for p in result["points"] if p["dtype"] == dtype]
        if not line:
            continue
        sizes, color = [p["n"] for p in line], COLORS[dtype]
        seconds, shares = (
            [spread(p["seconds"]) for p in line],
            [p["fraction_of_gemm_rate"] for p in line],
        )
        figures.spread_line(time, sizes, seconds, color=color)
        figures.spread_line(share, sizes, shares, color=color)
        ends["time"].append((sizes[-1], seconds[-1]["median"], dtype, color))
        ends["share"].append((sizes[-1], shares[-1]["median"], dtype, color))
    time.set_yscale("log")
    time.set_ylabel("seconds")
    share.set_ylim(0, 1)
    share.set_ylabel("share of the GEMM rate")
    for ax, name in ((time, "time"), (share, "share")):
        figures.plain_ticks(ax, sorted({p["n"] for p in result["points"]}), "samples n")
        label_line_ends(ax, ends[name], fontsize=7)
    return drawn
