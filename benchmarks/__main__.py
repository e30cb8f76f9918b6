"""Measure one kernel block against torch.func and against the matrix product itself.

All times are of one process on the same data and weights, and the results are compared first.
Writes benchmarks/results/ntk_block.json and the table in benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import numpy as np
import threadpoolctl
import torch
from torch import Tensor

from ntk_conditioning import activations, empirical, spectra
from ntk_conditioning.networks import MLP, forward, init_mlp
from ntk_conditioning.seeds import generator

RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parent / "README.md"
MARK = "<!-- measured: written by python -m benchmarks -->\n"
log = logging.getLogger("benchmarks")


def timed(function: Callable[[], object], *, repeats: int) -> list[float]:
    """Return the seconds of each of ``repeats`` calls."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return seconds


def gemm_rate(dtype: torch.dtype, *, size: int = 4096) -> float:
    """Return the best rate of a square matrix product in this process, in flop per second."""
    a, out = torch.randn(size, size, dtype=dtype), torch.empty(size, size, dtype=dtype)
    torch.mm(a, a, out=out)
    return 2 * size**3 / min(timed(lambda: torch.mm(a, a, out=out), repeats=5))


def needed_flops(n: int, d: int, width: int, depth: int) -> float:
    """Return the flops that no method can avoid: both passes, and half of each n × n product."""
    maps = d * width + (depth - 1) * width**2
    passes = 2 * n * maps + 2 * n * (depth - 1) * width**2
    products = n**2 * (d + depth * width) + n**2 * depth * width
    return passes + products


def torch_func_ntk(mlp: MLP, x: Tensor) -> Tensor:
    """Return the NTK by the usual recipe: vmap(jacrev), then a contraction over parameters."""

    def output(weights: tuple[Tensor, ...], sample: Tensor) -> Tensor:
        return forward(MLP(weights, mlp.activation), sample[None])[0]

    jacobian = torch.func.vmap(torch.func.jacrev(output), (None, 0))(mlp.weights, x)
    return sum(part.flatten(1) @ part.flatten(1).T for part in jacobian)


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Return times, ratios and what they were measured on."""
    torch.set_num_threads(args.threads)
    threadpoolctl.threadpool_limits(args.threads)
    x = torch.from_numpy(generator(0, "data").standard_normal((args.n, args.d)))
    mlp = init_mlp(
        args.d,
        depth=args.depth,
        width=args.width,
        activation=activations.get("relu"),
        generator=generator(0, "init"),
    )
    rate = gemm_rate(torch.float64)
    log.info("float64 matrix product: %.0f GFLOP/s", rate / 1e9)

    kernel = empirical.ntk(mlp, x)
    seconds = {"ntk": timed(lambda: empirical.ntk(mlp, x), repeats=args.repeats)}
    seconds["ntk_and_conditioning"] = timed(
        lambda: spectra.conditioning(empirical.ntk(mlp, x).numpy()), repeats=args.repeats
    )
    log.info("structured NTK: median %.4f s", statistics.median(seconds["ntk"]))
    size = 8e-9 * args.n * sum(weight.numel() for weight in mlp.weights)
    log.info("torch.func: %d calls with a Jacobian of %.1f GB each", args.peer_repeats, size)
    peer: list[Tensor] = []
    seconds["torch_func"] = timed(
        lambda: peer.append(torch_func_ntk(mlp, x)), repeats=args.peer_repeats
    )
    difference = float((peer[0] - kernel).abs().max() / kernel.abs().max())
    if difference > 1e-12:
        raise RuntimeError(f"the two kernels differ by {difference:.1e}: nothing to compare")

    median = {name: statistics.median(values) for name, values in seconds.items()}
    flops = needed_flops(args.n, args.d, args.width, args.depth)
    return {
        "problem": {name: getattr(args, name) for name in ("n", "d", "width", "depth")},
        "machine": {
            "processor": processor(),
            "threads": args.threads,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "gemm_gflops": rate / 1e9,
        "seconds": {name: [min(v), median[name], max(v)] for name, v in seconds.items()},
        "ratios": {
            "torch_func_over_ntk_and_conditioning": median["torch_func"]
            / median["ntk_and_conditioning"],
            "torch_func_over_ntk": median["torch_func"] / median["ntk"],
            "fraction_of_gemm_rate_ntk": flops / median["ntk"] / rate,
        },
        "largest_relative_difference": difference,
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the table of benchmarks/README.md."""
    problem, machine = result["problem"], result["machine"]
    rows = {
        "structured NTK": "ntk",
        "structured NTK + conditioning": "ntk_and_conditioning",
        "`torch.func`, vmap(jacrev) and contraction": "torch_func",
    }
    ratios = result["ratios"]
    lines = [
        "One block: "
        + ", ".join(f"{key} {value}" for key, value in problem.items())
        + ", float64. "
        f"{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}; matrix "
        f"product {result['gemm_gflops']:.0f} GFLOP/s.",
        "",
        "| | seconds: median (min … max) |",
        "| --- | --- |",
    ]
    for label, name in rows.items():
        low, middle, high = result["seconds"][name]
        lines.append(f"| {label} | {middle:.4g} ({low:.4g} … {high:.4g}) |")
    lines += [
        "",
        "| ratio of medians | |",
        "| --- | --- |",
        "| `torch.func` over structured NTK + conditioning | "
        f"{ratios['torch_func_over_ntk_and_conditioning']:.0f} |",
        f"| `torch.func` over structured NTK | {ratios['torch_func_over_ntk']:.0f} |",
        "| structured NTK, fraction of the matrix product's rate | "
        f"{ratios['fraction_of_gemm_rate_ntk']:.2f} |",
        "",
        f"The kernels agree to {result['largest_relative_difference']:.0e} of the largest entry.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--d", type=int, default=784)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=9, help="calls of the fast method")
    parser.add_argument("--peer-repeats", type=int, default=3, help="calls of torch.func")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")

    result = measure(args)
    table = markdown(result)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "ntk_block.json").write_text(json.dumps(result, indent=2) + "\n")
    head, mark, _ = README.read_text(encoding="utf-8").partition(MARK)
    README.write_text(f"{head}{mark}\n{table}", encoding="utf-8")
    log.info("benchmarks/README.md and benchmarks/results/ntk_block.json are written")
    print(table)
    return 0


def processor() -> str:
    """Return the processor's name, as far as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
