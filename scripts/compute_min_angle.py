"""Find the smallest gradient angle of networks of finite width over all pairs of a dataset."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from ntk_conditioning.angles.min_angle import MEMORY, min_angle
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.tables.angles import ANGLES
from ntk_workflow.cli import logger, positive_integer, run_main
from ntk_workflow.devices.device import device_argument, torch_device
from ntk_workflow.rows.angles import angle_row
from ntk_workflow.rows.blocks import memory_argument, memory_budget
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
    parser.add_argument(
        "--width", type=positive_integer, default=512, help="hidden units per layer"
    )
    parser.add_argument("--exclude-duplicates", action="store_true", help="leave out equal samples")
    device_argument(parser)
    memory_argument(parser)
    args = parser.parse_args(argv)

    device = torch_device(args)
    activation = load_activation(args)
    # A half for the gradients; the samples and what is computed from them need the rest.
    memory = min(MEMORY, memory_budget(args) // 2)
    log.info("device %s, float64, width %d, %s", device, args.width, depth_list(args.depths))
    labels = {"kernel": "empirical_ntk", "width": args.width}
    for cell in each_cell(args, ANGLES, program=__file__):
        mlp = init_mlp(
            cell.x.shape[1],
            depth=cell.depth,
            width=args.width,
            activation=activation,
            generator=generator(cell.seed, "init"),
            device=device,
        )
        found = min_angle(
            mlp,
            torch.from_numpy(cell.x).to(device),
            memory=memory,
            exclude_duplicates=args.exclude_duplicates,
        )
        cell.write([angle_row(args, cell, found, labels=labels)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
