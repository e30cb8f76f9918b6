"""Trained networks: what they are called, how they look, and how well they classify by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from ntk_conditioning.plotting.axes import band_handle, draw_curve, legend_below, line_handle
from ntk_conditioning.plotting.names import activation_colors, activation_label, dataset_label
from ntk_conditioning.plotting.style import DOUBLE_COLUMN, NOTE, PAGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

Network: TypeAlias = tuple[str, str]  # its kind and its activation
#: What keeps a network trainable beside its activation: how it is printed, and its colour.
_REMEDIES = {
    "batch_norm": ("batch norm", "#0072B2"),
    "layer_norm": ("layer norm", "#E69F00"),
    "fixup": ("Fixup", "#009E73"),
}
#: Kinds of networks that share a panel, how each is printed there, and its colour.
_FAMILIES = {
    "fully connected": {
        "mlp": ("plain", "#0072B2"),
        "mlp_bias": ("with biases", "#D55E00"),
    },
    "residual": {
        "residual_mlp": ("scale 1", "#0072B2"),
        "residual_mlp_scaled": ("scale 1/√L", "#D55E00"),
    },
    "convolutional": {
        "conv": ("flattened", "#0072B2"),
        "conv_pool": ("pooled", "#D55E00"),
    },
    "ResNet": {
        "resnet": ("plain", "#0072B2"),
        "resnet_batch_norm": ("batch norm", "#D55E00"),
        "resnet_layer_norm": ("layer norm", "#009E73"),
        "resnet_fixup": ("Fixup", "#CC79A7"),
    },
    "transformer": {"vit": ("attention", "#0072B2")},
}
_OTHERS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def model_families(models: Iterable[str]) -> dict[str, dict[str, tuple[str, str]]]:
    """Return models by the panel that they share, with the label and the colour of each.

    >>> model_families(["mine", "conv"])
    {'convolutional': {'conv': ('flattened', '#0072B2')}, 'other': {'mine': ('mine', '#0072B2')}}
    """
    models = list(models)
    families = {
        family: {name: look for name, look in members.items() if name in models}
        for family, members in _FAMILIES.items()
    }
    known = {name for members in _FAMILIES.values() for name in members}
    others = [name for name in models if name not in known]
    families["other"] = {
        name: (name.replace("_", " "), _OTHERS[k % len(_OTHERS)]) for k, name in enumerate(others)
    }
    return {family: members for family, members in families.items() if members}


def network_label(network: Network) -> str:
    """Return what tells a network from others of its kind: its normalisation and its activation.

    >>> network_label(("fc_batch_norm", "relu")), network_label(("resnet", "selu"))
    ('batch norm, ReLU', 'SELU')
    """
    remedy, label = _remedy(network), activation_label(network[1])
    return f"{_REMEDIES[remedy][0]}, {label}" if remedy else label


def network_color(network: Network) -> str:
    """Return a colour: of the normalisation if there is one, else of the activation."""
    remedy = _remedy(network)
    return _REMEDIES[remedy][1] if remedy else activation_colors([network[1]])[network[1]]


def _remedy(network: Network) -> str:
    return next((name for name in _REMEDIES if network[0].endswith(f"_{name}")), "")


def draw_metric(ax: Axes, curves: pd.DataFrame, metric: str, *, color: str, **line: Any) -> None:
    """Draw the mean over seeds of one network's metric against epochs, with its range."""
    values = curves.groupby("epoch")[metric]
    mean = values.mean()
    draw_curve(ax, mean.index, mean, low=values.min(), high=values.max(), color=color, **line)


def epoch_axis(ax: Axes, curves: pd.DataFrame) -> None:
    """Let the horizontal axis count epochs, in whole numbers."""
    ax.set_xlabel("epoch")
    ax.set_xlim(0, curves["epoch"].max())
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def draw_accuracies(curves: pd.DataFrame) -> Figure:
    """Return a figure of training and test accuracy of all networks, a row for each depth.

    ``curves`` has the rows of the table `training` that are to be drawn: one rate per network.
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
            for network in networks:
                curve = here[(here["model"] == network[0]) & (here["activation"] == network[1])]
                if len(curve):
                    draw_metric(ax, curve, f"{part}_accuracy", color=network_color(network))
            epoch_axis(ax, here)
            ax.set_title(f"{dataset_label(dataset)}, depth {depth}: {part}")
            ax.set_ylim(0, 1.02)
        left.set_ylabel("accuracy")
    handles = [line_handle(network_label(each), color=network_color(each)) for each in networks]
    legend_below(figure, handles, scale_handles(curves))
    return figure


def scale_handles(curves: pd.DataFrame) -> list[Line2D | Patch]:
    """Return the legend's words on widths and seeds."""
    widths = " / ".join(map(str, sorted(curves["width"].unique())))
    line, seeds = line_handle(f"width {widths}, best rate"), curves["seed"].nunique()
    return [line, band_handle(f"range over {seeds} seeds")] if seeds > 1 else [line]
