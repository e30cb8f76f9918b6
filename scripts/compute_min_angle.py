"""Find the smallest gradient angle of networks of finite width over all pairs of a dataset."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from cell import cell_parser, depth_list, each_cell, load_activation, seed_argument
from cell_angles import angle_row
from cli import logger, positive_integer, run_main

from ntk_conditioning import empirical
from ntk_conditioning.networks import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.tables.angles import ANGLES

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = cell_parser(__doc__)
    seed_argument(parser)
    parser.add_argument(
        "--width", type=positive_integer, default=512, help="hidden units per layer"
    )
    parser.add_argument("--exclude-duplicates", action="store_true", help="leave out equal samples")
    args = parser.parse_args(argv)

    activation = load_activation(args)
    log.info("device cpu, float64, width %d, %s", args.width, depth_list(args.depths))
    labels = {"kernel": "empirical_ntk", "width": args.width}
    for cell in each_cell(args, ANGLES, program=__file__):
        mlp = init_mlp(
            cell.x.shape[1],
            depth=cell.depth,
            width=args.width,
            activation=activation,
            generator=generator(cell.seed, "init"),
        )
        samples = torch.from_numpy(cell.x)
        found = empirical.min_angle(mlp, samples, exclude_duplicates=args.exclude_duplicates)
        cell.write([angle_row(args, cell, found, labels=labels)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
