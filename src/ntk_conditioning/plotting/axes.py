"""Curves with bands, legends, letters of panels, and axes: depths, plain numbers on log scales."""

import math
from collections.abc import Iterable, Sequence
from itertools import chain, product
from string import ascii_lowercase
from typing import Any, Literal

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MultipleLocator, NullFormatter
from numpy.typing import ArrayLike

from ntk_conditioning.plotting.theme import RULE_COLOR

DEPTH = "depth $L$ (hidden layers)"
KAPPA = r"condition number $\kappa$"


def depth_axis(ax: Axes, depths: Iterable[int]) -> None:
    """Let the horizontal axis count hidden layers, in whole numbers."""
    depths = list(depths)
    first, last = min(depths), max(depths)
    ax.set_xlabel(DEPTH)
    ax.xaxis.set_major_locator(MultipleLocator(max(1, math.ceil((last - first) / 10))))
    margin = 0.1 + 0.03 * (last - first)
    ax.set_xlim(first - margin, last + margin)


def plain_log(ax: Axes, which: Literal["x", "y"]) -> None:
    """Write plain numbers along a logarithmic axis, as many as it takes; call it with all drawn.

    An axis that has very small or large numbers keeps its powers of ten.
    """
    axis = ax.xaxis if which == "x" else ax.yaxis
    low, high = axis.get_view_interval()
    if low < 1e-4 or high >= 1e6:  # from where on "g" writes some as 1e+06
        return
    few, many = (8, 300) if which == "y" else (4, 60)  # numbers side by side need more room
    steps = [1.0, 2.0, 5.0] if high / low < many else [1.0]
    if high / low < few:
        steps = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def draw_curve(
    ax: Axes,
    x: ArrayLike,
    y: ArrayLike,
    *,
    color: str,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    **line: Any,
) -> Line2D:
    """Return the line through the points that exist, drawn over a band from ``low`` to ``high``.

    Missing values, NaN or None, leave a gap in the line and in the band; a point between two gaps
    is a dot if it has no marker.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    (drawn,) = ax.plot(x, y, color=color, **line)
    exists = np.concatenate([[False], np.isfinite(y), [False]])
    alone = exists[1:-1] & ~exists[:-2] & ~exists[2:]
    if alone.any() and ("marker" not in line or "markevery" in line):
        ax.plot(x[alone], y[alone], ".", color=color, alpha=drawn.get_alpha())
    if low is not None and high is not None:
        low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        ax.fill_between(x, low, high, color=color, alpha=0.16, linewidth=0, zorder=1)
    return drawn


def sparse(points: int, place: int) -> tuple[int, int]:
    """Return `markevery` of a long curve: about five markers, apart from those of other places.

    >>> sparse(21, 1), sparse(3, 1)
    ((1, 4), (0, 1))
    """
    step = max(1, round(points / 5))
    return place % step, step


def label_panels(axes: Iterable[Axes]) -> None:
    """Write (a), (b), ... at the upper left of all axes that are on, unless there is only one.

    Call it when all titles are set: a letter stands beside the first line of its panel's title.
    """
    shown = [ax for ax in axes if ax.axison]
    letters = chain(ascii_lowercase, map("".join, product(ascii_lowercase, repeat=2)))
    for ax, letter in zip(shown if len(shown) > 1 else [], letters, strict=False):
        further_lines = ax.get_title("left").count("\n")
        ax.annotate(
            f"({letter})",
            (0, 1),
            xycoords="axes fraction",
            xytext=(-5, 6 + further_lines * 1.2 * rcParams["axes.titlesize"]),
            textcoords="offset points",
            ha="right",
            va="baseline",
            weight="bold",
        )


def band_handle(label: str) -> Patch:
    """Return the legend's sample of a band, named by what it spans."""
    return Patch(facecolor=RULE_COLOR, alpha=0.3, linewidth=0, label=label)


def seed_bands(seeds: Iterable[int]) -> list[Patch]:
    """Return the legend's sample of a band over seeds, named by their number; none for one seed.

    >>> [band.get_label() for seeds in ([1], [2], [3], [2, 3]) for band in seed_bands(seeds)]
    ['both seeds', 'range over 3 seeds', 'range over 2 / 3 seeds']
    """
    numbers = sorted(set(seeds))
    if not numbers or numbers[-1] == 1:
        return []
    several = f"range over {' / '.join(map(str, numbers))} seeds"
    return [band_handle("both seeds" if numbers == [2] else several)]


def line_handle(label: str, *, color: str = "#333333", **line: Any) -> Line2D:
    """Return the legend's sample of a line."""
    return Line2D([], [], color=color, label=label, **line)


def legend_below(figure: Figure, *groups: Sequence[Line2D | Patch], columns: int = 4) -> None:
    """Write a legend under the axes, each group of samples on rows of its own."""
    columns = min(columns, max(map(len, groups), default=0))
    if not columns:
        return
    cells: list[Line2D | Patch] = []
    for group in groups:
        blanks = -len(group) % columns
        cells += [*group, *(line_handle("", linestyle="none") for _ in range(blanks))]
    by_column = [cell for column in range(columns) for cell in cells[column::columns]]
    figure.legend(handles=by_column, loc="outside lower center", ncols=columns)
