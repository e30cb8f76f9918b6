"""What the programs share whose cells consist of kernel blocks: arguments, memory, rows."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import memory
from ntk_conditioning.data.blocks import draw_blocks
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import Conditioning
from ntk_workflow import resources
from ntk_workflow.cli import (
    limit_threads,
    logger,
    positive_integer,
    positive_integer_or_all,
    positive_number,
)
from ntk_workflow.rows.cell import Cell

log = logger(__file__)

Condition = Callable[[NDArray[np.float64]], Conditioning]


def block_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of cells that consist of kernel blocks."""
    parser.add_argument(
        "--kernel-size", type=positive_integer_or_all, default=512, help="samples per block, or all"
    )
    parser.add_argument(
        "--blocks", type=positive_integer_or_all, default=1, help="number of blocks, or all"
    )
    parser.add_argument(
        "--eigenvalues",
        choices=["first", "all", "none"],
        default="first",
        help="blocks whose eigenvalues are kept",
    )
    parser.add_argument(
        "--full-spectrum-below",
        type=positive_integer,
        default=2048,
        help="samples from which only the extreme eigenvalues are computed",
    )
    memory_argument(parser)


def memory_argument(parser: argparse.ArgumentParser) -> None:
    """Add the memory that a program may use."""
    parser.add_argument(
        "--memory-gb",
        type=positive_number,
        help="memory to keep within, in 10^9 bytes; by default what is available at the start",
    )


def memory_budget(args: argparse.Namespace) -> int:
    """Return the memory that a program may use, in bytes."""
    if args.memory_gb is None:
        return memory.available_bytes(environ=os.environ, reserved=resources.SNAKEMAKE)
    return int(args.memory_gb * memory.GB)


def block_rows(
    args: argparse.Namespace,
    cell: Cell,
    condition: Condition,
    *,
    labels: dict[str, Any],
    fit: Callable[[int], None],
) -> Iterator[dict[str, Any]]:
    """Yield a row of the spectra table for each block of a cell.

    ``fit`` raises an error if a block of so many samples does not fit into the memory.
    """
    n, d = cell.x.shape
    blocks = draw_blocks(
        n, size=args.kernel_size, count=args.blocks, generator=generator(cell.seed, "blocks")
    )
    log.info("%d blocks of %d samples, %d inputs", len(blocks), len(blocks[0]), d)
    fit(len(blocks[0]))
    for number, result in enumerate(_conditioned(args, cell.x, blocks, condition)):
        keep = args.eigenvalues == "all" or (args.eigenvalues == "first" and number == 0)
        eigenvalues = result.eigenvalues if keep else None
        yield {
            "dataset": args.dataset,
            "activation": args.activation,
            "depth": cell.depth,
            "seed": cell.seed,
            "block": number,
            **labels,
            "n": result.n,
            "d": d,
            "method": result.method,
            "lambda_max": result.lambda_max,
            "lambda_max_error": result.lambda_max_error,
            "lambda_min": result.lambda_min,
            "lambda_min_error": result.lambda_min_error,
            "resolution_floor": result.resolution_floor,
            "numerical_rank": result.numerical_rank,
            "kappa": result.kappa,
            "kappa_error": result.kappa_error,
            "kappa_nonzero": result.kappa_nonzero,
            "effective_rank": result.effective_rank,
            "reduced_precision": result.reduced_precision,
            "eigenvalues": None if eigenvalues is None else eigenvalues.tolist(),
        }
        if result.kappa is None:
            log.info(
                "block %d: lambda_min not resolved, rank %d of %d",
                number,
                result.numerical_rank,
                result.n,
            )


def _conditioned(
    args: argparse.Namespace,
    x: NDArray[np.float64],
    blocks: Sequence[NDArray[np.intp]],
    condition: Condition,
) -> Iterator[Conditioning]:
    """Yield the conditioning of all blocks, in their order.

    Small blocks are computed side by side, each by one thread: threads that share a small product
    wait for each other more than they compute.
    """
    if args.threads == 1 or len(blocks) == 1 or len(blocks[0]) >= args.full_spectrum_below:
        yield from (condition(x[block]) for block in blocks)
        return
    limit_threads(1)
    try:
        with ThreadPoolExecutor(args.threads, initializer=limit_threads, initargs=(1,)) as pool:
            yield from pool.map(lambda block: condition(x[block]), blocks)
    finally:
        limit_threads(args.threads)
