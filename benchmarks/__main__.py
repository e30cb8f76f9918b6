"""Measure one kernel block against torch.func and against the matrix product itself.

All times are of one process on the same data and weights, and the results are compared first. Writes
benchmarks/results/ntk_block.json and prints the table of benchmarks/README.md.
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

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning import empirical, spectra
from ntk_conditioning.networks import MLP, forward, init_mlp
from ntk_conditioning.seeds import generator

RESULTS = Path(__file__).parent / "results"
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
    torch.set_num_threads(args.threads)

    x = torch.from_numpy(generator(0, "data").standard_normal((args.n, args.d)))
    mlp = init_mlp(
        args.d,
        depth=args.depth,
        width=args.width,
        activation="relu",
        generator=generator(0, "init"),
    )
    rate = gemm_rate(torch.float64)
    log.info("float64 matrix product: %.0f GFLOP/s", rate / 1e9)

    kernel = empirical.ntk(mlp, x)
    ntk = timed(lambda: empirical.ntk(mlp, x), repeats=args.repeats)
    conditioned = timed(
        lambda: spectra.conditioning(empirical.ntk(mlp, x).numpy()), repeats=args.repeats
    )
    log.info(
        "structured NTK: %.4f s, with conditioning %.4f s",
        *map(statistics.median, (ntk, conditioned)),
    )

    log.info(
        "torch.func: %d calls, each holds a Jacobian of %.1f GB ...",
        args.peer_repeats,
        8e-9 * args.n * sum(w.numel() for w in mlp.weights),
    )
    peer: list[Tensor] = []
    jacobian = timed(lambda: peer.append(torch_func_ntk(mlp, x)), repeats=args.peer_repeats)
    difference = float((peer[0] - kernel).abs().max() / kernel.abs().max())
    assert difference < 1e-12, f"the kernels differ by {difference}"

    flops = needed_flops(args.n, args.d, args.width, args.depth)
    median = {
        name: statistics.median(values)
        for name, values in (
            ("ntk", ntk),
            ("ntk_and_conditioning", conditioned),
            ("torch_func", jacobian),
        )
    }
    result = {
        "problem": {key: getattr(args, key) for key in ("n", "d", "width", "depth")}
        | {"dtype": "float64"},
        "machine": {
            "processor": processor(),
            "threads": args.threads,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "gemm_gflops": rate / 1e9,
        "seconds": {
            name: [min(v), statistics.median(v), max(v)]
            for name, v in (
                ("ntk", ntk),
                ("ntk_and_conditioning", conditioned),
                ("torch_func", jacobian),
            )
        },
        "ratios": {
            "torch_func_over_ntk": median["torch_func"] / median["ntk"],
            "torch_func_over_ntk_and_conditioning": median["torch_func"]
            / median["ntk_and_conditioning"],
            "fraction_of_gemm_rate_ntk": flops / median["ntk"] / rate,
        },
        "largest_relative_difference": difference,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "ntk_block.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
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
