"""Rows of spectra: the options of kernel blocks, and the rows of the table of one cell."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ntk_conditioning import memory
from ntk_conditioning.data.blocks import draw_blocks
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import BlockKernel, MemoryBudget
from ntk_conditioning.spectra.conditioning import Conditioning
from ntk_conditioning.tables.spectra import spectra_row
from ntk_workflow import allocation
from ntk_workflow.cli import (
    limit_threads,
    logger,
    positive_integer,
    positive_integer_or_all,
    positive_number,
)

log = logger(__file__)


@dataclass(frozen=True)
class Blocks:
    """The blocks of a cell: samples in each, their number, and which keep their eigenvalues."""

    size: int | Literal["all"]
    count: int | Literal["all"]
    eigenvalues: Literal["first", "all", "none"]

    def keeps_eigenvalues(self, number: int) -> bool:
        """Return whether the table holds the eigenvalues of a block, counted from 0."""
        return self.eigenvalues == "all" or (self.eigenvalues == "first" and number == 0)


def block_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of kernel blocks."""
    add = parser.add_argument
    add("--kernel-size", type=positive_integer_or_all, default=512, help="samples, or all")
    add("--blocks", type=positive_integer_or_all, default=1, help="number of blocks, or all")
    add(
        "--eigenvalues",
        choices=["first", "all", "none"],
        default="first",
        help="blocks whose eigenvalues are kept",
    )
    add(
        "--full-spectrum-below",
        type=positive_integer,
        default=2048,
        help="samples from which only the extreme eigenvalues are computed",
    )
    memory_argument(parser)


def blocks_of(args: argparse.Namespace) -> Blocks:
    """Return the blocks that the options ask for."""
    return Blocks(args.kernel_size, args.blocks, args.eigenvalues)


def memory_argument(parser: argparse.ArgumentParser) -> None:
    """Add the memory that a program may use."""
    parser.add_argument(
        "--memory-gb",
        type=positive_number,
        help="memory to keep within, in 10^9 bytes; by default what is available at the start",
    )


def available_memory(memory_gb: float | None, device: torch.device | None = None) -> int:
    """Return the bytes that a program may use: what it was given, or what its device has."""
    if memory_gb is not None:
        return int(memory_gb * memory.GB)
    if device is not None and device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return min([memory.available_bytes(), *allocation.granted_bytes(os.environ)])


def memory_budget(args: argparse.Namespace, device: torch.device | None = None) -> MemoryBudget:
    """Return the memory for a program's kernels."""
    available = available_memory(args.memory_gb, device)
    remedy = "lower kernel_size, or find a larger machine"
    return MemoryBudget(available, args.full_spectrum_below, args.threads, remedy)


def block_rows(
    kernel: BlockKernel,
    x: NDArray[np.float64],
    blocks: Blocks,
    *,
    seed: int,
    labels: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yield a row of the spectra table for each block of the samples ``x`` (n, d).

    Raises:
        BlockError: if the samples do not hold the blocks.
        NotEnoughMemoryError: if the memory does not hold the kernel of one.
    """
    chosen = draw_blocks(
        len(x), size=blocks.size, count=blocks.count, generator=generator(seed, "blocks")
    )
    log.info("%d blocks of %d samples, %d inputs", len(chosen), len(chosen[0]), x.shape[1])
    kernel.require_memory(len(chosen[0]))
    for number, result in enumerate(_conditioned(kernel, x, chosen)):
        if result.kappa is None:
            rank = (result.numerical_rank, result.n)
            log.info("block %d: lambda_min not resolved, rank %d of %d", number, *rank)
        yield {
            **labels,
            "block": number,
            "d": x.shape[1],
            **spectra_row(result, eigenvalues=blocks.keeps_eigenvalues(number)),
        }


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
    limit_threads(1)
    try:
        with ThreadPoolExecutor(threads, initializer=limit_threads, initargs=(1,)) as pool:
            yield from pool.map(lambda block: kernel.conditioning(x[block]), blocks)
    finally:
        limit_threads(threads)
