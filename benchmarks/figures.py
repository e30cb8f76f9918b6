"""What the figures share: colours by method, and lines that are named where they end."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from ntk_conditioning import plotting

OURS = "#0072B2"
DASHED: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 0.9}
COLORS = {
    "ours": OURS,
    "torch_func": "#E69F00",
    "torch_func_products": "#B87F00",
    "neural_tangents": "#009E73",
    "neural_tangents_products": "#006E50",
    "nngeometry": "#CC79A7",
    "modules_torch_func": "#E69F00",
    "modules_neural_tangents": "#009E73",
    "modules_nngeometry": "#CC79A7",
    "scipy": "#D55E00",
    "numpy": "#56B4E9",
    "numpy_eig": "#882255",
    "torch": "#4D4D4D",
}


def canvas(*, rows: int = 1, columns: int = 1, height: float = 2.4) -> tuple[Figure, list[Axes]]:
    """Return a figure of the project's style and its axes, row by row."""
    plotting.use_style()
    width = plotting.SINGLE_COLUMN * 1.25 if columns == 1 else plotting.DOUBLE_COLUMN
    figure, axes = plt.subplots(rows, columns, figsize=(width, height * rows), squeeze=False)
    plt.close(figure)  # drawn, not shown: pyplot need not keep it
    return figure, list(axes.flat)


def plain_ticks(ax: Axes, sizes: Sequence[int], label: str) -> None:
    """Let a logarithmic horizontal axis have its ticks at the sizes that were measured."""
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(list(sizes)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    crowded = len(sizes) > 4 or any(b < 1.9 * a for a, b in pairwise(sizes))
    ax.tick_params(axis="x", labelrotation=35 if crowded else 0)
    ax.set_xlabel(label)


def spread_line(
    ax: Axes, x: Sequence[float], spreads: Sequence[Mapping[str, float]], *, color: str
) -> None:
    """Draw medians as a line with points, over the band from the least to the largest."""
    y, low, high = ([spread[key] for spread in spreads] for key in ("median", "min", "max"))
    plotting.draw_curve(ax, x, y, color=color, low=low, high=high, marker="o")


def target_line(ax: Axes, value: float) -> None:
    """Draw what was asked for as a dashed line."""
    ax.axhline(value, color=plotting.RULE_COLOR, zorder=0, **DASHED)


def note(ax: Axes, text: str, *, top: bool = False) -> None:
    """Write what a dashed line is into a corner on the right."""
    level = 0.96 if top else 0.04
    place = {"ha": "right", "va": "top" if top else "bottom"}
    ax.text(0.98, level, f"dashed: {text}", transform=ax.transAxes, **place, **plotting.NOTE)


def plain_seconds(ax: Axes) -> None:
    """Let a logarithmic horizontal axis have plain numbers, and enough of them."""
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 200 else (1,)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("seconds")
