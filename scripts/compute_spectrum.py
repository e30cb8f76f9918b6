"""Condition a kernel of networks of finite width on random blocks of a dataset."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import torch

from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.empirical_kernel import EmpiricalKernel, EmpiricalName
from ntk_conditioning.tables.spectra import SPECTRA
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import logger, positive_integer, run_main
from ntk_workflow.cli_activations import load_activation
from ntk_workflow.devices.device import device_argument, torch_device
from ntk_workflow.rows.blocks import block_arguments, block_rows, blocks_of, memory_budget
from ntk_workflow.rows.depths import depth_cells, depth_list, depth_parser, samples_reader
from ntk_workflow.rows.row import checkpoints_of, write_row

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    device = torch_device(args)
    activation = load_activation(args)
    log.info("device %s, %s, width %d, %s", device, args.dtype, args.width, depth_list(args.depths))
    names = ("kernel", "dataset", "activation", "width")
    labels = {name: getattr(args, name) for name in names}
    samples = samples_reader()

    def compute(cell: Cell) -> Iterator[dict[str, Any]]:
        x = samples(cell.data)
        mlp = init_mlp(
            x.shape[1],
            depth=cell.value,
            width=args.width,
            activation=activation,
            generator=generator(cell.random_seed, "init"),
            dtype=getattr(torch, args.dtype),
            device=device,
        )
        kernel = EmpiricalKernel(mlp, args.kernel, memory_budget(args, device))
        named = labels | cell.coordinates
        return block_rows(kernel, x, blocks_of(args), seed=cell.random_seed, labels=named)

    cells = depth_cells(args.data, args.depths, args.seeds)
    kept = checkpoints_of(args, program=__file__)
    write_row(args.output, SPECTRA, cells, compute, checkpoints=kept)
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = depth_parser(__doc__)
    block_arguments(parser)
    kernels = get_args(EmpiricalName)
    parser.add_argument("--kernel", choices=kernels, default=kernels[0])
    parser.add_argument(
        "--width", type=positive_integer, default=512, help="hidden units per layer"
    )
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    device_argument(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
