"""Rows of spectra: those of one kernel on random blocks."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.subsets import draw_blocks
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import BlockKernel
from ntk_conditioning.spectra.condition_numbers import spectra_row
from ntk_workflow import cli

#: What an error of a kernel that does not fit ends with.
REMEDY = "lower kernel_size, or find a larger machine"


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
    kernel.require_memory(len(blocks[0]))
    threads = kernel.budget.threads
    if threads > 1 and len(blocks) > 1 and kernel.budget.is_small(len(blocks[0])):
        # Small blocks are computed side by side, each by one thread: threads that share a small
        # product wait for each other more than they compute.
        cli.limit_threads(1)
        with ThreadPoolExecutor(threads, initializer=cli.limit_threads, initargs=(1,)) as pool:
            results = [*pool.map(lambda block: kernel.conditioning(x[block]), blocks)]
        cli.limit_threads(threads)
    else:
        results = [kernel.conditioning(x[block]) for block in blocks]
    kept = {"first": 1, "all": len(blocks), "none": 0}[eigenvalues]
    return [
        {"block": number, "d": x.shape[1], **spectra_row(result, eigenvalues=number < kept)}
        for number, result in enumerate(results)
    ]
