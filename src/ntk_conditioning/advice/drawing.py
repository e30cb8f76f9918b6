"""The figure of the advice: what preparation, depth, activation and width do to kappa."""

import math
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ntk_conditioning.advice.recommendations import Advice
from ntk_conditioning.networks.activations import NORMALIZED
from ntk_conditioning.plotting import DEPTH, KAPPA, curves, plain_log, samples
from ntk_conditioning.plotting.theme import NOTE, use_theme
from ntk_conditioning.training.preconditioning import KERNEL

LABELS = {
    "none": "as they are",
    "centred": "centred",
    "unit_norm": "one norm",
    "centred_unit_norm": "centred, one norm",
    "standardized_unit_norm": "standardised, one norm",
    "top_directions": "without first direction",
}


def draw(advice: Advice) -> Figure:
    """Return the figure: repairs, depth at infinite width, depth at finite width."""
    use_theme()
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(10.5, 3.4), gridspec_kw={"width_ratios": [1, 1.15, 1]}
    )
    _draw_repairs(left, advice)
    handles = _draw_curves(middle, advice.predictions, title="Infinite width")
    middle.set_ylim(top=min(1e12, middle.get_ylim()[1]))  # or one activation hides the others
    middle.legend(handles=handles, fontsize=6, loc="upper left", bbox_to_anchor=(1, 1.02))
    look = {"style": "width", "band": ("low", "high")}
    title = f"Random networks, {advice.small_block} samples"
    handles = _draw_curves(right, advice.networks, title=title, **look)
    handles += samples("width", advice.networks.width, by="style")
    right.legend(handles=handles, fontsize=6)
    return figure


def _draw_repairs(ax: Axes, advice: Advice) -> None:
    shown = [repair for repair in advice.repairs if repair.place != KERNEL or repair.directions]
    names = [("kernel " if r.place == KERNEL else "") + LABELS[r.repair] for r in shown]
    colors = ["#0077BB" if r.repair == advice.preparation else "#9ecae1" for r in shown]
    ax.barh(names, [r.kappa or math.nan for r in shown], color=colors, height=0.65)
    for position in [k for k, repair in enumerate(shown) if repair.kappa is None]:
        ax.text(1.2, position, "not resolved", va="center", **NOTE)
    ax.invert_yaxis()
    ax.set(xscale="log", xlim=(1, None), title="Preparation (ReLU, 1 layer)", xlabel=KAPPA)


def _draw_curves(ax: Axes, data: pd.DataFrame, *, title: str, **look: Any) -> list[Line2D]:
    """Draw kappa over depth and return a legend's samples; normalised activations are white.

    An axis without any kappa has a word instead.
    """
    handles = []
    for normalized, rows in data.groupby(data.activation.str.startswith(NORMALIZED)):
        face: Any = {"markerfacecolor": "white"} if normalized else {}
        curves(rows, x="depth", y="kappa", hue="activation", ax=ax, markersize=3.5, **face, **look)
        handles += samples("activation", rows.activation, **face)
    if data.kappa.notna().any():
        ax.set(xscale="log", yscale="log")
        plain_log(ax, "x")
    else:
        ax.text(0.5, 0.5, "not resolved", transform=ax.transAxes, ha="center", **NOTE)
        ax.set(xticks=[], yticks=[])
    ax.set(xlabel=DEPTH, ylabel=KAPPA, title=title)
    return handles
