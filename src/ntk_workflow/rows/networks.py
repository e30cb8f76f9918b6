"""Rows over widths and seeds: the options of a study of wide networks, and its networks."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.data.subsets import draw_two_classes, seed_stream
from ntk_conditioning.seeds import generator
from ntk_conditioning.transition.descent import Descent, descend
from ntk_conditioning.transition.feedforward import FeedforwardNet, draw_network, on_span
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import Parser, logger, positive_integer, positive_number, seed
from ntk_workflow.cli_activations import load_activation
from ntk_workflow.devices.device import device_argument, torch_device
from ntk_workflow.rows.row import row_parser

log = logger(__file__)


@dataclass(frozen=True)
class Network:
    """A network at its initialisation, and the samples ``x`` (n, d), ``y`` (n,) of -1 and 1.

    The samples are in the network's coordinates, see `on_span`; ``labels`` are the columns of the
    table that name the network.
    """

    net: FeedforwardNet
    x: Tensor
    y: Tensor
    labels: Mapping[str, str | int | None]


@dataclass(frozen=True)
class Study:
    """Networks of one architecture at several widths: None among the ``hidden`` is what varies."""

    labels: Mapping[str, str]
    hidden: Sequence[int | None]
    dense: bool
    x: Tensor
    y: Tensor
    steps: int
    step_size: float
    device: torch.device

    def network(self, cell: Cell) -> Network:
        """Return the network of a cell's width and seed."""
        hidden = [width or cell.value for width in self.hidden]
        net = draw_network(
            self.x.shape[1],
            hidden,
            activation=self.labels["activation"],
            generator=generator(cell.random_seed, "init"),
            dense=self.dense,
        )
        net, x = on_span(net, self.x)
        moved = net.with_weights([weight.to(self.device) for weight in net.weights])
        labels = {**self.labels, **cell.coordinates, "hidden": "-".join(map(str, hidden))}
        return Network(moved, x.to(self.device), self.y.to(self.device), labels)

    def descend(self, network: Network) -> Descent:
        """Return the network after the study's steps of gradient descent."""
        return descend(
            network.net, network.x, network.y, steps=self.steps, step_size=self.step_size
        )


def study_parser(description: str | None) -> Parser:
    """Return a parser with the options of every study."""
    parser = row_parser(description)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared dataset (.npz), with labels")
    add("--samples", type=positive_integer, default=20, help="samples, half of each class")
    add("--classes", type=int, nargs=2, help="labels of the two classes; by default the lowest two")
    add("--sample-seed", type=seed, default=1, help="seed that draws the samples")
    add("--architecture", required=True, help="name written into the table")
    add(
        "--hidden",
        type=hidden_width,
        nargs="+",
        required=True,
        help="widths of the hidden layers; m is the width that varies",
    )
    add("--dense", action="store_true", help="a DenseNet: each layer takes all layers before it")
    add("--widths", type=positive_integer, nargs="+", required=True, help="values of m")
    add("--seeds", type=seed, nargs="+", required=True, help="seeds of the initialisations")
    add("--steps", type=seed, default=100, help="steps of gradient descent")
    add(
        "--step-size",
        type=positive_number,
        default=0.5,
        help="step of gradient descent, in units of 1 / lambda_max of the NTK at initialisation",
    )
    device_argument(parser)
    return parser


def hidden_width(text: str) -> int | None:
    """Return a number of neurons, or None for the width that varies.

    >>> hidden_width("1000"), hidden_width("m")
    (1000, None)
    """
    return None if text == "m" else positive_integer(text)


def study_of(args: argparse.Namespace) -> Study:
    """Return the study that the options ask for.

    Raises:
        SubsetError: if the dataset has not so many samples of two classes.
    """
    load_activation(args)
    device = torch_device(args)
    data = load_prepared(args.data)
    stream = seed_stream(args.sample_seed)
    rows, y = draw_two_classes(
        args.dataset, data.y, args.samples, classes=args.classes, generator=stream
    )
    x = data.x[rows]
    log.info(
        "device %s, float64, %d samples of %d features, %d seeds",
        device.type,
        *x.shape,
        len(args.seeds),
    )
    names = ("dataset", "architecture", "activation")
    return Study(
        labels={name: getattr(args, name) for name in names},
        hidden=args.hidden,
        dense=args.dense,
        x=torch.from_numpy(x),
        y=torch.from_numpy(y),
        steps=args.steps,
        step_size=args.step_size,
        device=device,
    )


def width_cells(data: Path, widths: Sequence[int], seeds: Sequence[int]) -> list[Cell]:
    """Return the cells of a study, width by width."""
    return [Cell("width", width, seed, data) for width in widths for seed in seeds]
