"""Rows over widths and seeds: the options of a study of wide networks, and its networks."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ntk_conditioning.data.subsets import draw_two_classes, seed_stream
from ntk_conditioning.seeds import generator
from ntk_conditioning.transition.feedforward import FeedforwardNet, draw_network, on_span
from ntk_workflow.cli import positive_integer, positive_number, seed
from ntk_workflow.devices import device_argument
from ntk_workflow.samples import load_samples


def study_arguments(parser: ArgumentParser) -> None:
    """Add the options of every study of wide networks."""
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


def hidden_width(text: str) -> int | None:
    """Return a number of neurons, or None for the width that varies, ``m``."""
    return None if text == "m" else positive_integer(text)


def two_classes(
    path: Path, dataset: str, samples: int, *, classes: Sequence[int] | None, seed: int
) -> tuple[Tensor, Tensor]:
    """Return samples (n, d) of two classes, half of each, and their labels, plus and minus 1."""
    data = load_samples(path)
    rng = seed_stream(seed)
    chosen, labels = draw_two_classes(dataset, data.y, samples, classes=classes, generator=rng)
    return torch.from_numpy(data.x[chosen]), torch.from_numpy(labels)


def initial_network(
    x: Tensor, hidden: Sequence[int], *, activation: str, dense: bool, seed: int, device: str
) -> tuple[FeedforwardNet, Tensor]:
    """Return a network at its initialisation, and the samples ``x`` in its coordinates.

    See `on_span`.
    """
    rng = generator(seed, "init")
    net = draw_network(x.shape[1], hidden, activation=activation, generator=rng, dense=dense)
    net, x = on_span(net, x)
    return net.with_weights([weight.to(device) for weight in net.weights]), x.to(device)
