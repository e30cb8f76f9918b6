"""Condition a kernel of infinite width on random blocks of a dataset."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
from cell import cell_parser, depth_list, each_cell, load_activation, seed_argument
from cell_blocks import block_arguments, block_rows
from cli import logger, run_main
from numpy.typing import NDArray

from ntk_conditioning import infinite, spectra
from ntk_conditioning.activations import Activation
from ntk_conditioning.tables.spectra import SPECTRA

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
        condition_cell = partial(
            condition, kernel=args.kernel, depth=cell.depth, activation=activation
        )
        cell.write(block_rows(args, cell, condition_cell, labels=labels))
    return 0


def condition(
    block: NDArray[np.float64], *, kernel: str, depth: int, activation: Activation
) -> spectra.Conditioning:
    """Return the conditioning of a kernel of infinite width on a block of samples (n, d)."""
    if depth == 0 or activation.negative_slope == 1:
        # A multiple of the Gram matrix, whose factor is the data.
        scale = np.sqrt(depth + 1.0) if kernel == "infinite_ntk" else 1.0
        return spectra.conditioning_from_factor(scale * block)
    layer = infinite.layer_at(block, depth=depth, activation=activation)
    matrix = layer.ntk if kernel == "infinite_ntk" else layer.nngp
    return spectra.conditioning(matrix, entry_error=layer.error)


if __name__ == "__main__":
    sys.exit(main())
