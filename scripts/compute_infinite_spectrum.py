"""Condition a kernel of infinite width on random blocks of a dataset."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from cell import cell_parser, each_seed, load_activation, seed_arguments
from cell_blocks import block_arguments, block_rows
from cli import logger, run_main
from numpy.typing import NDArray

from ntk_conditioning import infinite, spectra, tables
from ntk_conditioning.tables.spectra import SPECTRA

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = cell_parser(__doc__)
    seed_arguments(parser)
    block_arguments(parser)
    parser.add_argument("--kernel", choices=["infinite_ntk", "nngp"], required=True)
    args = parser.parse_args(argv)

    activation = load_activation(args)
    log.info("device cpu, float64, infinite width, depth %d", args.depth)
    linear = args.depth == 0 or activation.negative_slope == 1
    scale = np.sqrt(args.depth + 1.0) if args.kernel == "infinite_ntk" else 1.0

    def condition(block: NDArray[np.float64]) -> spectra.Conditioning:
        if linear:  # a multiple of the Gram matrix, whose factor is the data
            return spectra.conditioning_from_factor(scale * block)
        layer = infinite.layer_at(block, depth=args.depth, activation=activation)
        kernel = layer.ntk if args.kernel == "infinite_ntk" else layer.nngp
        return spectra.conditioning(kernel, entry_error=layer.error)

    labels = {"kernel": args.kernel, "width": None, "dtype": "float64"}
    for seed, x, output in each_seed(args):
        rows = block_rows(args, x, condition, seed=seed, labels=labels)
        tables.write(output, SPECTRA, tables.from_rows(SPECTRA, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
