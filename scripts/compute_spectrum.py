"""Condition the empirical NTK of one network of finite width on random blocks of a dataset."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import torch
from cell import cell_parser, load
from cell_blocks import block_arguments, block_rows
from cli import logger, positive_integer, run_main
from numpy.typing import NDArray

from ntk_conditioning import empirical, spectra, tables
from ntk_conditioning.networks import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.tables.spectra import SPECTRA

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = cell_parser(__doc__)
    block_arguments(parser)
    parser.add_argument(
        "--width", type=positive_integer, default=512, help="hidden units per layer"
    )
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    args = parser.parse_args(argv)

    x, activation = load(args)
    log.info("device cpu, %s, width %d, depth %d", args.dtype, args.width, args.depth)
    mlp = init_mlp(
        x.shape[1],
        depth=args.depth,
        width=args.width,
        activation=activation,
        generator=generator(args.seed, "init"),
        dtype=getattr(torch, args.dtype),
    )

    linear = mlp.depth == 0 or activation.negative_slope == 1

    def condition(block: NDArray[np.float64]) -> spectra.Conditioning:
        samples = torch.from_numpy(block).to(mlp.dtype)
        if linear:  # the squared matrix would lose half of the digits
            return spectra.conditioning_from_factor(empirical.linear_factor(mlp, samples).numpy())
        return spectra.conditioning(empirical.ntk(mlp, samples).numpy())

    labels = {"kernel": "empirical_ntk", "width": args.width, "dtype": args.dtype}
    rows = block_rows(args, x, condition, labels=labels)
    tables.write(args.output, SPECTRA, tables.from_rows(SPECTRA, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
