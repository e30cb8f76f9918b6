"""Rows of spectra: the options of kernel blocks, and the rows of the table of one cell."""

import argparse
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import memory
from ntk_conditioning.data.blocks import draw_blocks
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import BlockKernel, MemoryBudget
from ntk_conditioning.spectra.conditioning import Conditioning
from ntk_conditioning.spectra.summary import spectra_row
from ntk_workflow import allocation, cli

log = cli.logger(__file__)


def block_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of kernel blocks."""
    add, count = parser.add_argument, cli.positive_integer_or_all
    add("--kernel-size", type=count, default=512, help="samples, or all")
    add("--blocks", type=count, default=1, help="number of blocks, or all")
    choices, help = ["first", "all", "none"], "blocks whose eigenvalues are kept"
    add("--eigenvalues", choices=choices, default="first", help=help)
    help = "samples from which only the extreme eigenvalues are computed"
    add("--full-spectrum-below", type=cli.positive_integer, default=2048, help=help)
    memory_argument(parser)


def memory_argument(parser: argparse.ArgumentParser) -> None:
    """Add the memory that a program may use."""
    help = "memory to keep within, in 10^9 bytes; by default what is available at the start"
    parser.add_argument("--memory-gb", type=cli.positive_number, help=help)


def available_memory(memory_gb: float | None, device: str = "cpu") -> int:
    """Return the bytes that a program may use: what it was given, or what its device has."""
    if memory_gb is not None:
        return int(memory_gb * memory.GB)
    if device == "cuda":
        import torch  # takes seconds, and kernels of infinite width do without

        return torch.cuda.mem_get_info()[0]
    return min([memory.available_bytes(), *allocation.granted_bytes(os.environ)])


def memory_budget(args: argparse.Namespace) -> MemoryBudget:
    """Return the memory for a program's kernels."""
    available = available_memory(args.memory_gb, args.device)
    remedy = "lower kernel_size, or find a larger machine"
    return MemoryBudget(available, args.full_spectrum_below, args.threads, remedy)


def block_rows(
    args: argparse.Namespace, kernel: BlockKernel, x: NDArray[np.float64], seed: int
) -> Iterator[dict[str, Any]]:
    """Yield a row of the spectra table for each block of the samples ``x`` (n, d)."""
    rng = generator(seed, "blocks")
    chosen = draw_blocks(len(x), size=args.kernel_size, count=args.blocks, generator=rng)
    log.info("%d blocks of %d samples, %d inputs", len(chosen), len(chosen[0]), x.shape[1])
    kernel.require_memory(len(chosen[0]))
    with_eigenvalues = {"first": 1, "all": len(chosen), "none": 0}[args.eigenvalues]
    for number, result in enumerate(_conditioned(kernel, x, chosen)):
        if result.kappa is None:
            rank = (result.numerical_rank, result.n)
            log.info("block %d: lambda_min not resolved, rank %d of %d", number, *rank)
        row = spectra_row(result, eigenvalues=number < with_eigenvalues)
        yield {"block": number, "d": x.shape[1], **row}


def _conditioned(
    kernel: BlockKernel, x: NDArray[np.float64], blocks: Sequence[NDArray[np.intp]]
) -> Iterator[Conditioning]:
    """Yield the conditioning of all blocks, in their order.

    Small blocks are computed side by side, each by one thread: threads that share a small product
    wait for each other more than they compute.
    """
    threads = kernel.budget.threads
    if threads == 1 or len(blocks) == 1 or not kernel.budget.is_small(len(blocks[0])):
        yield from (kernel.conditioning(x[block]) for block in blocks)
        return
    cli.limit_threads(1)
    try:
        with ThreadPoolExecutor(threads, initializer=cli.limit_threads, initargs=(1,)) as pool:
            yield from pool.map(lambda block: kernel.conditioning(x[block]), blocks)
    finally:
        cli.limit_threads(threads)
