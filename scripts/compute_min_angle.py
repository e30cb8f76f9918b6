"""Find the smallest gradient angle of networks of finite width over all pairs of a dataset."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ntk_conditioning.angles.min_angle import MEMORY, min_angle
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.tables.angles import ANGLES
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import logger, positive_integer, run_main
from ntk_workflow.cli_activations import load_activation
from ntk_workflow.devices.device import device_argument, torch_device
from ntk_workflow.rows.angles import angle_row
from ntk_workflow.rows.blocks import available_memory, memory_argument
from ntk_workflow.rows.depths import depth_cells, depth_list, depth_parser, samples_reader
from ntk_workflow.rows.row import checkpoints_of, write_row

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    device = torch_device(args)
    activation = load_activation(args)
    # A half for the gradients; the samples and what is computed from them need the rest.
    memory = min(MEMORY, available_memory(args.memory_gb) // 2)
    log.info("device %s, float64, width %d, %s", device, args.width, depth_list(args.depths))
    labels = {name: getattr(args, name) for name in ("dataset", "activation", "width")}
    samples = samples_reader()

    def compute(cell: Cell) -> Iterator[dict[str, Any]]:
        x = samples(cell.data)
        mlp = init_mlp(
            x.shape[1],
            depth=cell.value,
            width=args.width,
            activation=activation,
            generator=generator(cell.random_seed, "init"),
            device=device,
        )
        found = min_angle(
            mlp,
            torch.from_numpy(x).to(device),
            memory=memory,
            exclude_duplicates=args.exclude_duplicates,
        )
        yield angle_row(found, x, labels | {"kernel": "empirical_ntk"} | cell.coordinates)

    cells = depth_cells(args.data, args.depths, args.seeds)
    kept = checkpoints_of(args, program=__file__)
    write_row(args.output, ANGLES, cells, compute, checkpoints=kept)
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = depth_parser(__doc__)
    parser.add_argument(
        "--width", type=positive_integer, default=512, help="hidden units per layer"
    )
    parser.add_argument("--exclude-duplicates", action="store_true", help="leave out equal samples")
    device_argument(parser)
    memory_argument(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
