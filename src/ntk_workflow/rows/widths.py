"""Rows over widths and seeds: the options of a study of wide networks, and its networks."""

import argparse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ntk_conditioning.data.subsets import draw_two_classes, seed_stream
from ntk_conditioning.seeds import generator
from ntk_conditioning.tables import Table
from ntk_conditioning.transition.descent import Descent, descend
from ntk_conditioning.transition.feedforward import FeedforwardNet, draw_network, on_span
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import (
    Parser,
    logger,
    positive_integer,
    positive_number,
    seed,
)
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.devices import device_argument, torch_device
from ntk_workflow.rows.row import row_parser, write_row
from ntk_workflow.samples import load_samples

log = logger(__file__)


@dataclass(frozen=True)
class Network:
    """A network at its initialisation, and the samples ``x`` (n, d) in its coordinates.

    See `on_span`. ``descend`` trains it on labels plus and minus a number, for numbers of steps.
    """

    net: FeedforwardNet
    x: Tensor
    seed: int
    descend: Callable[[float, Collection[int]], Iterator[Descent]]


def study_parser(description: str | None) -> Parser:
    """Return a parser with the options of every study."""
    parser = row_parser(description)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared dataset (.npz), with labels")
    add("--samples", type=positive_integer, default=20, help="samples, half of each class")
    add("--classes", type=int, nargs=2, help="labels of the two classes; by default the lowest two")
    add("--sample-seed", type=seed, default=1, help="seed that draws the samples")
    add("--architecture", required=True, help="name written into the table")
    help = "widths of the hidden layers; m is the width that varies"
    add("--hidden", type=hidden_width, nargs="+", required=True, help=help)
    add("--dense", action="store_true", help="a DenseNet: each layer takes all layers before it")
    add("--widths", type=positive_integer, nargs="+", required=True, help="values of m")
    add("--seeds", type=seed, nargs="+", required=True, help="seeds of the initialisations")
    help = "step of gradient descent, in units of 1 / lambda_max of the NTK before it"
    add("--step-size", type=positive_number, default=0.5, help=help)
    device_argument(parser)
    return parser


def hidden_width(text: str) -> int | None:
    """Return a number of neurons, or None for the width that varies, ``m``."""
    return None if text == "m" else positive_integer(text)


def write_widths(
    args: argparse.Namespace,
    table: Table,
    compute: Callable[[Network], Iterable[Mapping[str, Any]]],
    *,
    program: str,
) -> None:
    """Write a row, width by width; ``compute`` returns the rows of a network."""
    load_activations(args)
    device = torch_device(args)
    data, stream = load_samples(args.data), seed_stream(args.sample_seed)
    wanted = {"classes": args.classes, "generator": stream}
    chosen, labels = draw_two_classes(args.dataset, data.y, args.samples, **wanted)
    samples, y = torch.from_numpy(data.x[chosen]), torch.from_numpy(labels).to(device)
    line = "device %s, float64, %d samples of %d features, %d seeds"
    log.info(line, device.type, *samples.shape, len(args.seeds))

    def labelled(cell: Cell) -> Iterator[Mapping[str, Any]]:
        hidden = [width or cell.value for width in args.hidden]
        rng = generator(cell.random_seed, "init")
        net = draw_network(
            samples.shape[1], hidden, activation=cell.activation, generator=rng, dense=args.dense
        )
        net, x = on_span(net, samples)
        net, x = net.with_weights([weight.to(device) for weight in net.weights]), x.to(device)

        def train(label_scale: float, steps: Collection[int]) -> Iterator[Descent]:
            return descend(net, x, label_scale * y, steps=steps, step_size=args.step_size)

        names = {"dataset": args.dataset, "architecture": args.architecture}
        names |= cell.coordinates | {"hidden": "-".join(map(str, hidden)), "d": net.fan_ins[0]}
        for row in compute(Network(net, x, cell.random_seed, train)):
            yield {**names, **row}

    axes = product(args.activation, args.widths, args.seeds)
    cells = [Cell(sigma, "width", width, seed, args.data) for sigma, width, seed in axes]
    write_row(args, table, cells, labelled, program=program)
