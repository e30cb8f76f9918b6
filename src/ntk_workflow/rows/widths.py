"""Rows over widths and seeds: what a study of wide networks learns, and its networks."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.data.subsets import draw_two_classes, seed_stream
from ntk_conditioning.seeds import generator
from ntk_conditioning.transition.feedforward import FeedforwardNet, draw_network, on_span


def two_classes(
    path: Path, dataset: str, *, samples: int, classes: Sequence[int] | None, sample_seed: int
) -> tuple[Tensor, Tensor]:
    """Return samples (n, d) of two classes, half of each, and their labels, plus and minus 1."""
    data, rng = load_prepared(path), seed_stream(sample_seed)
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
