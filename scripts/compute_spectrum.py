"""Condition the empirical NTK of networks of finite width on random blocks of a dataset."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from cell import cell_parser, depth_list, each_cell, load_activation, seed_argument
from cell_blocks import block_arguments, block_rows
from cli import logger, positive_integer, run_main
from numpy.typing import NDArray

from ntk_conditioning import empirical, spectra
from ntk_conditioning.networks import MLP, init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.tables.spectra import SPECTRA

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = cell_parser(__doc__)
    seed_argument(parser)
    block_arguments(parser)
    parser.add_argument(
        "--width", type=positive_integer, default=512, help="hidden units per layer"
    )
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    args = parser.parse_args(argv)

    activation = load_activation(args)
    log.info("device cpu, %s, width %d, %s", args.dtype, args.width, depth_list(args.depths))
    labels = {"kernel": "empirical_ntk", "width": args.width, "dtype": args.dtype}
    for cell in each_cell(args, SPECTRA, program=__file__):
        mlp = init_mlp(
            cell.x.shape[1],
            depth=cell.depth,
            width=args.width,
            activation=activation,
            generator=generator(cell.seed, "init"),
            dtype=getattr(torch, args.dtype),
        )
        cell.write(block_rows(args, cell, partial(condition, mlp), labels=labels))
    return 0


def condition(mlp: MLP, block: NDArray[np.float64]) -> spectra.Conditioning:
    """Return the conditioning of the NTK of ``mlp`` on a block of samples (n, d)."""
    samples = torch.from_numpy(block).to(mlp.dtype)
    if mlp.depth == 0 or mlp.activation.negative_slope == 1:
        # A linear network: the squared matrix would lose half of the digits.
        return spectra.conditioning_from_factor(empirical.linear_factor(mlp, samples).numpy())
    return spectra.conditioning(empirical.ntk(mlp, samples).numpy())


if __name__ == "__main__":
    sys.exit(main())
