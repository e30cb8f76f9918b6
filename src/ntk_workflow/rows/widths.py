"""Rows over widths and seeds: the options of a study of wide networks, and its networks."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ntk_conditioning.data.subsets import draw_two_classes, seed_stream
from ntk_conditioning.seeds import generator
from ntk_conditioning.transition.feedforward import FeedforwardNet, draw_network, on_span
from ntk_workflow import cli
from ntk_workflow.samples import load_samples


def study_parser(description: str | None) -> cli.Parser:
    """Return a parser with the options of every study of wide networks."""
    names = ("data", "sample-seed", "widths", "seeds", "device")
    parser = cli.Parser(*cli.ROW, *names, description=description)
    add = parser.add_argument
    add("--samples", type=cli.positive_integer, default=20, help="samples, half of each class")
    add("--classes", type=int, nargs=2, help="labels of the two classes; by default the lowest two")
    add("--architecture", required=True, help="name written into the table")
    help = "widths of the hidden layers; m is the width that varies"
    add("--hidden", nargs="+", required=True, help=help)
    add("--dense", action="store_true", help="a DenseNet: each layer takes all layers before it")
    help = "step of gradient descent, in units of 1 / lambda_max of the NTK before it"
    add("--step-size", type=cli.positive_number, default=0.5, help=help)
    return parser


def two_classes(
    path: Path, dataset: str, *, samples: int, classes: Sequence[int] | None, sample_seed: int
) -> tuple[Tensor, Tensor]:
    """Return samples (n, d) of two classes, half of each, and their labels, plus and minus 1."""
    data, rng = load_samples(path), seed_stream(sample_seed)
    chosen, labels = draw_two_classes(dataset, data.y, samples, classes=classes, generator=rng)
    return torch.from_numpy(data.x[chosen]), torch.from_numpy(labels)


def drawn_network(
    x: Tensor, hidden: Sequence[int], *, activation: str, dense: bool, seed: int, device: str
) -> tuple[FeedforwardNet, Tensor]:
    """Return a network at its initialisation, and the samples ``x``, see `on_span`."""
    rng = generator(seed, "init")
    net = draw_network(x.shape[1], hidden, activation=activation, generator=rng, dense=dense)
    net, x = on_span(net, x)
    return net.with_weights([weight.to(device) for weight in net.weights]), x.to(device)
