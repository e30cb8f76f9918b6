"""What the programs share whose cells consist of kernel blocks: arguments and rows."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from cell import Cell
from cli import logger, positive_integer_or_all
from numpy.typing import NDArray

from ntk_conditioning.blocks import draw_blocks
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra import Conditioning

log = logger(__file__)


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


def block_rows(
    args: argparse.Namespace,
    cell: Cell,
    condition: Callable[[NDArray[np.float64]], Conditioning],
    *,
    labels: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yield a row of the spectra table for each block of a cell."""
    n, d = cell.x.shape
    blocks = draw_blocks(
        n, size=args.kernel_size, count=args.blocks, generator=generator(cell.seed, "blocks")
    )
    log.info("%d blocks of %d samples, %d inputs", len(blocks), len(blocks[0]), d)
    for number, block in enumerate(blocks):
        result = condition(cell.x[block])
        keep = args.eigenvalues == "all" or (args.eigenvalues == "first" and number == 0)
        yield {
            "dataset": args.dataset,
            "activation": args.activation,
            "depth": cell.depth,
            "seed": cell.seed,
            "block": number,
            **labels,
            "n": result.n,
            "d": d,
            "lambda_max": result.lambda_max,
            "lambda_min": result.lambda_min,
            "resolution_floor": result.resolution_floor,
            "numerical_rank": result.numerical_rank,
            "kappa": result.kappa,
            "kappa_nonzero": result.kappa_nonzero,
            "effective_rank": result.effective_rank,
            "reduced_precision": result.reduced_precision,
            "eigenvalues": result.eigenvalues.tolist() if keep else None,
        }
        if result.kappa is None:
            log.info(
                "block %d: lambda_min not resolved, rank %d of %d",
                number,
                result.numerical_rank,
                result.n,
            )
