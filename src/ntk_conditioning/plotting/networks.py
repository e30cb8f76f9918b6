"""Trained networks: what they are called, how they look, and how well they classify by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ntk_conditioning.plotting import looks
from ntk_conditioning.plotting.axes import label_panels
from ntk_conditioning.plotting.lines import curves as draw_curves
from ntk_conditioning.plotting.lines import legend, sample, seed_samples
from ntk_conditioning.plotting.theme import DOUBLE_COLUMN, NOTE, PAGE, RULE_COLOR

if TYPE_CHECKING:
    import pandas as pd

#: The line at the accuracy of guesses.
CHANCE: dict[str, Any] = {"color": RULE_COLOR, "linestyle": ":", "linewidth": 0.9}
#: What tells networks of one setting apart, and what a panel of accuracies shows.
NETWORK, SETTING = ["model", "activation"], ["dataset", "depth"]
Network: TypeAlias = tuple[str, str]  # its kind and its activation


def network_label(network: Network) -> str:
    """Return what tells a network from others of its kind: its normalisation and its activation.

    >>> network_label(("fc_batch_norm", "relu")), network_label(("resnet", "selu"))
    ('batch norm, ReLU', 'SELU')
    """
    remedy, activation = _remedy(network), looks.label("activation", network[1])
    return f"{looks.label('remedy', remedy)}, {activation}" if remedy else activation


def network_look(network: Network) -> dict[str, str]:
    """Return colour and marker: of the normalisation if there is one, else of the activation."""
    remedy = _remedy(network)
    column, value = ("remedy", remedy) if remedy else ("activation", network[1])
    return {
        "color": looks.colors(column, [value])[value],
        "marker": looks.markers(column, [value])[value],
    }


def _remedy(network: Network) -> str:
    return next((name for name in looks.LOOKS["remedy"] if network[0].endswith(f"_{name}")), "")


def epoch_axis(ax: Axes, curves: pd.DataFrame) -> None:
    """Let the horizontal axis count epochs, in whole numbers."""
    ax.set_xlabel("epoch")
    last = curves["epoch"].max()
    ax.set_xlim(-0.02 * last, 1.02 * last)  # room for markers
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def draw_accuracies(curves: pd.DataFrame) -> Figure:
    """Return a figure of training and test accuracy of all networks, a row for each depth.

    ``curves`` has the rows of the table `training` that are to be drawn: one rate per network.
    """
    settings = list(curves.groupby(SETTING))
    if not settings:
        figure, ax = plt.subplots(figsize=(DOUBLE_COLUMN, 1.2))
        ax.set_axis_off()
        ax.text(0.5, 0.5, "every network diverged at every rate", ha="center", **NOTE)
        return figure
    size = (DOUBLE_COLUMN, min(0.7 + 2.1 * len(settings), PAGE))
    figure, axes = plt.subplots(len(settings), 2, figsize=size, squeeze=False, sharey="row")
    for ((dataset, depth), here), row in zip(settings, axes, strict=True):
        for ax, part in zip(row, ("train", "test"), strict=True):
            ax.axhline(1 / here["classes"].iloc[0], **CHANCE)
            for network, seeds in here.groupby(NETWORK):
                line: dict[str, Any] = {**network_look(network), "markevery": 0.2}
                metric = f"{part}_accuracy"
                draw_curves(seeds, x="epoch", y=metric, ax=ax, markers=False, **line)
            epoch_axis(ax, here)
            title = f"{looks.label('dataset', dataset)}, depth {depth}, {widths(here)}: {part}"
            ax.set(title=title, ylabel="")
        row[0].set_ylabel("accuracy")
    networks = curves[NETWORK].drop_duplicates().itertuples(index=False, name=None)
    networks = sorted(networks, key=lambda network: (not _remedy(network), network))
    handles = [sample(network_label(network), **network_look(network)) for network in networks]
    chance = sample("chance", **CHANCE)
    legend(figure, handles, [chance, *seed_samples([curves["seed"].nunique()])])
    label_panels(axes.flat)
    return figure


def widths(curves: pd.DataFrame) -> str:
    """Return in words how wide networks are."""
    return f"width {' / '.join(map(str, sorted(curves['width'].unique())))}"
