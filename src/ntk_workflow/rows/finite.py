"""Rows of networks of finite width: their options, and the network of a cell."""

import argparse
from collections.abc import Callable
from typing import Any

import torch

from ntk_conditioning.networks.mlp import MLP, init_mlp
from ntk_conditioning.seeds import generator
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import Parser, logger, positive_integer
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.devices import device_argument, torch_device
from ntk_workflow.rows.depths import depth_parser

#: Blocks of fewer samples are done sooner by more cores than that, side by side, than by a GPU: of
#: 512 an H100 does one in 33 ms, two cores 117 in 20 s (benchmarks/README.md).
SMALL_BLOCK, MANY_CORES = 1024, 10

log = logger(__file__)


def finite_parser(description: str | None) -> Parser:
    """Return a parser of a row over depths and seeds, with a width and a device."""
    parser = depth_parser(description)
    parser.add_argument("--width", type=positive_integer, default=512, help="units per layer")
    device_argument(parser)
    return parser


def networks(args: argparse.Namespace) -> Callable[[Cell, int], MLP]:
    """Return a function that draws the network of a cell for d inputs, on the device asked for.

    With the device ``auto`` small blocks are those cores' own that are many.
    """
    size: Any = getattr(args, "kernel_size", "all")
    blocks: Any = getattr(args, "blocks", 1)
    small = size != "all" and size < SMALL_BLOCK and (blocks == "all" or blocks > MANY_CORES)
    if args.device == "auto" and small and args.threads > MANY_CORES:
        log.info("device auto: the CPU, %d threads do blocks of %d sooner", args.threads, size)
        args.device = "cpu"
    device = torch_device(args)
    load_activations(args)

    def network(cell: Cell, d: int) -> MLP:
        return init_mlp(
            d,
            depth=cell.value,
            width=args.width,
            activation=cell.activation,
            generator=generator(cell.random_seed, "init"),
            dtype=getattr(torch, args.dtype),
            device=device,
        )

    return network
