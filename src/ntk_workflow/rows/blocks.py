"""Rows of spectra: the options of kernel blocks, and the rows of one kernel."""

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.blocks import draw_blocks
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import BlockKernel
from ntk_conditioning.spectra.conditioning import Conditioning, spectra_row
from ntk_workflow import cli
from ntk_workflow.rows import memory_argument

#: What an error of a kernel that does not fit ends with.
REMEDY = "lower kernel_size, or find a larger machine"

log = cli.logger(__file__)


def block_arguments(parser: ArgumentParser) -> None:
    """Add the options of kernel blocks."""
    add, count = parser.add_argument, cli.positive_integer_or_all
    add("--kernel-size", type=count, default=512, help="samples, or all")
    add("--blocks", type=count, default=1, help="number of blocks, or all")
    choices, help = ["first", "all", "none"], "blocks whose eigenvalues are kept"
    add("--eigenvalues", choices=choices, default="first", help=help)
    help = "samples from which only the extreme eigenvalues are computed"
    add("--full-spectrum-below", type=cli.positive_integer, default=2048, help=help)
    memory_argument(parser)


def block_rows(
    kernel: BlockKernel,
    x: NDArray[np.float64],
    *,
    seed: int,
    size: int | Literal["all"],
    count: int | Literal["all"],
    eigenvalues: Literal["first", "all", "none"],
) -> list[dict[str, Any]]:
    """Return a row of the spectra table for each random block of the samples ``x`` (n, d)."""
    blocks = draw_blocks(len(x), size=size, count=count, generator=generator(seed, "blocks"))
    log.info("%d blocks of %d samples, %d inputs", len(blocks), len(blocks[0]), x.shape[1])
    kernel.require_memory(len(blocks[0]))
    kept = {"first": 1, "all": len(blocks), "none": 0}[eigenvalues]
    rows = []
    for number, result in enumerate(_conditioned(kernel, x, blocks)):
        if result.kappa is None:
            rank = (result.numerical_rank, result.n)
            log.info("block %d: lambda_min not resolved, rank %d of %d", number, *rank)
        row = spectra_row(result, eigenvalues=number < kept)
        rows.append({"block": number, "d": x.shape[1], **row})
    return rows


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
