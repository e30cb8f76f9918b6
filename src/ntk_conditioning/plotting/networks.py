"""Trained networks: what they are called, how they look, and how well they classify by epoch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ntk_conditioning.plotting.axes import (
    draw_curve,
    label_panels,
    legend_below,
    line_handle,
    seed_bands,
    sparse,
)
from ntk_conditioning.plotting.names import (
    Look,
    activation_colors,
    activation_label,
    activation_markers,
    dataset_label,
)
from ntk_conditioning.plotting.theme import DOUBLE_COLUMN, NOTE, PAGE, RULE_COLOR

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

#: The line at the accuracy of guesses.
CHANCE: dict[str, Any] = {"color": RULE_COLOR, "linestyle": ":", "linewidth": 0.9}
Network: TypeAlias = tuple[str, str]  # its kind and its activation
#: What keeps a network trainable beside its activation.
_REMEDIES: dict[str, Look] = {
    "batch_norm": ("batch norm", "#0072B2", "s"),
    "layer_norm": ("layer norm", "#E69F00", "D"),
    "fixup": ("Fixup", "#009E73", "^"),
}
#: Kinds of networks that share a panel, and how each is printed there.
_FAMILIES = {
    "fully connected": {"mlp": "plain", "mlp_bias": "with biases"},
    "residual": {"residual_mlp": "scale 1", "residual_mlp_scaled": "scale 1/√L"},
    "convolutional": {"conv": "flattened", "conv_pool": "pooled"},
    "ResNet": {
        "resnet": "plain",
        "resnet_batch_norm": "batch norm",
        "resnet_layer_norm": "layer norm",
        "resnet_fixup": "Fixup",
    },
    "transformer": {"vit": "attention"},
}
#: Colours and markers of the kinds of a family, by their place.
_PLACES = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#E69F00", "v"),
    ("#56B4E9", "P"),
)


def model_families(models: Iterable[str]) -> dict[str, dict[str, Look]]:
    """Return models by the panel that they share, with label, colour and marker of each.

    >>> model_families(["mine", "conv_pool"])["convolutional"]
    {'conv_pool': ('pooled', '#D55E00', 's')}
    """
    models = list(models)
    known = {name for members in _FAMILIES.values() for name in members}
    others = {name: name.replace("_", " ") for name in models if name not in known}
    families = {
        family: {
            name: (label, *_PLACES[k % len(_PLACES)])
            for k, (name, label) in enumerate(members.items())
            if name in models
        }
        for family, members in (_FAMILIES | {"other": others}).items()
    }
    return {family: members for family, members in families.items() if members}


def network_label(network: Network) -> str:
    """Return what tells a network from others of its kind: its normalisation and its activation.

    >>> network_label(("fc_batch_norm", "relu")), network_label(("resnet", "selu"))
    ('batch norm, ReLU', 'SELU')
    """
    remedy, label = _remedy(network), activation_label(network[1])
    return f"{_REMEDIES[remedy][0]}, {label}" if remedy else label


def network_look(network: Network) -> dict[str, str]:
    """Return colour and marker: of the normalisation if there is one, else of the activation."""
    remedy, name = _remedy(network), network[1]
    if remedy:
        return {"color": _REMEDIES[remedy][1], "marker": _REMEDIES[remedy][2]}
    return {"color": activation_colors([name])[name], "marker": activation_markers([name])[name]}


def _remedy(network: Network) -> str:
    return next((name for name in _REMEDIES if network[0].endswith(f"_{name}")), "")


def draw_metric(ax: Axes, curves: pd.DataFrame, metric: str, *, color: str, **line: Any) -> None:
    """Draw the mean over seeds of one network's metric against epochs, with its range."""
    values = curves.groupby("epoch")[metric]
    mean = values.mean()
    line = {"markevery": sparse(len(mean), 0)} | line
    draw_curve(ax, mean.index, mean, low=values.min(), high=values.max(), color=color, **line)


def epoch_axis(ax: Axes, curves: pd.DataFrame) -> None:
    """Let the horizontal axis count epochs, in whole numbers."""
    ax.set_xlabel("epoch")
    last = curves["epoch"].max()
    ax.set_xlim(-0.02 * last, 1.02 * last)  # room for markers
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def draw_accuracies(curves: pd.DataFrame) -> Figure:
    """Return a figure of training and test accuracy of all networks, a row for each depth.

    ``curves`` has the rows of the table `training` that are to be drawn: one rate per network. A
    panel says so if the best network's range over seeds meets another's at the last epoch.
    """
    rows = list(curves.groupby(["dataset", "depth"]))
    if not rows:
        figure, ax = plt.subplots(figsize=(DOUBLE_COLUMN, 1.2))
        ax.set_axis_off()
        ax.text(0.5, 0.5, "every network diverged at every rate", ha="center", **NOTE)
        return figure
    size = (DOUBLE_COLUMN, min(0.7 + 2.1 * len(rows), PAGE))
    figure, axes = plt.subplots(len(rows), 2, figsize=size, squeeze=False, sharey="row")
    kinds = curves[["model", "activation"]].drop_duplicates().itertuples(index=False, name=None)
    networks = sorted(kinds, key=lambda network: (not _remedy(network), network))
    for ((dataset, depth), here), (left, right) in zip(rows, axes, strict=True):
        for ax, part in ((left, "train"), (right, "test")):
            metric = f"{part}_accuracy"
            ax.axhline(1 / here["classes"].iloc[0], **CHANCE)
            for network in networks:
                curve = here[(here["model"] == network[0]) & (here["activation"] == network[1])]
                if len(curve):
                    draw_metric(ax, curve, metric, **network_look(network))
            epoch_axis(ax, here)
            ax.set_title(f"{dataset_label(dataset)}, depth {depth}, {widths(here)}: {part}")
            if _overlap(here, metric):
                words = "ranges overlap at the end"
                ax.text(0.98, 0.04, words, ha="right", transform=ax.transAxes, **NOTE)
        left.set_ylabel("accuracy")
        left.set_ylim(_accuracy_floor(here), 1.02)
    handles = [line_handle(network_label(each), **network_look(each)) for each in networks]
    chance = line_handle("chance", **CHANCE)
    legend_below(figure, handles, [chance, *seed_bands([curves["seed"].nunique()])])
    label_panels(axes.flat)
    return figure


def _accuracy_floor(curves: pd.DataFrame) -> float:
    """Return where an axis of accuracies begins: below all of them, and below chance."""
    least = float(curves[["train_accuracy", "test_accuracy"]].min().min())
    chance = 1 / int(curves["classes"].max())
    return max(0.0, math.floor(20 * min(least, chance) - 0.5) / 20)


def widths(curves: pd.DataFrame) -> str:
    """Return in words how wide networks are."""
    return f"width {' / '.join(map(str, sorted(curves['width'].unique())))}"


def _overlap(curves: pd.DataFrame, metric: str) -> bool:
    """Return whether at the last epoch the best network's range over seeds meets another's."""
    if curves["seed"].nunique() == 1:
        return False
    last = curves[curves["epoch"] == curves["epoch"].max()]
    ends = last.groupby(["model", "activation"])[metric].agg(["mean", "min", "max"])
    ends = ends.sort_values("mean")
    return bool(ends["max"].iloc[:-1].max() >= ends["min"].iloc[-1])
