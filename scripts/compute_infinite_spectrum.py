"""Condition a kernel of infinite width on random blocks of a dataset."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import memory
from ntk_conditioning.kernels import infinite
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.spectra.conditioning import (
    Conditioning,
    conditioning,
    conditioning_from_factor,
)
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning
from ntk_conditioning.tables.spectra import SPECTRA
from ntk_workflow.cli import logger, run_main
from ntk_workflow.rows.blocks import block_arguments, block_rows, memory_budget
from ntk_workflow.rows.cell import (
    cell_parser,
    depth_list,
    each_cell,
    load_activation,
    seed_argument,
)

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = cell_parser(__doc__)
    seed_argument(parser)
    block_arguments(parser)
    parser.add_argument("--kernel", choices=["infinite_ntk", "nngp"], required=True)
    args = parser.parse_args(argv)

    activation = load_activation(args)
    log.info("device cpu, float64, infinite width, %s", depth_list(args.depths))
    labels = {"kernel": args.kernel, "width": None, "dtype": "float64"}
    for cell in each_cell(args, SPECTRA, program=__file__):
        conditioned = partial(condition, args, depth=cell.depth, activation=activation)
        linear = is_linear(cell.depth, activation)
        fit = partial(require_memory, args) if not linear else lambda n: None
        cell.write(block_rows(args, cell, conditioned, labels=labels, fit=fit))
    return 0


def is_linear(depth: int, activation: Activation) -> bool:
    """Return whether the kernel is a multiple of the Gram matrix, whose factor is the data."""
    return depth == 0 or activation.negative_slope == 1


def require_memory(args: argparse.Namespace, n: int) -> None:
    """Raise an error if a kernel of ``n`` samples does not fit."""

    def needed(samples: int, itemsize: int) -> int:
        # Solved in its place, or copied by LAPACK, and then threads have blocks of their own.
        copies = 1 if samples >= args.full_spectrum_below else 2 * args.threads
        return memory.kernel_bytes(samples, itemsize=itemsize, row_bytes=0, copies=copies)

    memory.require(
        n,
        needed,
        itemsize=np.dtype(np.float64).itemsize,
        available=memory_budget(args),
        remedy="lower kernel_size, or find a larger machine",
        single=False,
    )


def condition(
    args: argparse.Namespace, block: NDArray[np.float64], *, depth: int, activation: Activation
) -> Conditioning:
    """Return the conditioning of a kernel of infinite width on a block of samples (n, d)."""
    if is_linear(depth, activation):
        scale = np.sqrt(depth + 1.0) if args.kernel == "infinite_ntk" else 1.0
        return conditioning_from_factor(scale * block)
    layer = infinite.layer_at(block, depth=depth, activation=activation)
    kernel = layer.ntk if args.kernel == "infinite_ntk" else layer.nngp
    if len(kernel) < args.full_spectrum_below:
        return conditioning(kernel, entry_error=layer.error)
    return extreme_conditioning(kernel, entry_error=layer.error, overwrite=True)


if __name__ == "__main__":
    sys.exit(main())
