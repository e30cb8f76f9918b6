"""Curves with bands, and legends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from ntk_conditioning.plotting.style import RULE_COLOR


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
    is a dot.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    (drawn,) = ax.plot(x, y, color=color, **line)
    exists = np.concatenate([[False], np.isfinite(y), [False]])
    alone = exists[1:-1] & ~exists[:-2] & ~exists[2:]
    if alone.any():
        ax.plot(x[alone], y[alone], ".", color=color, alpha=drawn.get_alpha())
    if low is not None and high is not None:
        low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        ax.fill_between(x, low, high, color=color, alpha=0.16, linewidth=0, zorder=1)
    return drawn


def band_handle(label: str) -> Patch:
    """Return the legend's sample of a band, named by what it spans."""
    return Patch(facecolor=RULE_COLOR, alpha=0.3, linewidth=0, label=label)


def line_handle(label: str, *, color: str = "#333333", **line: Any) -> Line2D:
    """Return the legend's sample of a line."""
    return Line2D([], [], color=color, label=label, **line)


def legend_below(figure: Figure, *groups: Sequence[Line2D | Patch], columns: int = 4) -> None:
    """Write a legend under the axes, each group of samples on rows of its own."""
    groups = tuple(group for group in groups if group)
    if not groups:
        return
    columns = min(columns, max(map(len, groups)))
    cells: list[Line2D | Patch] = []
    for group in groups:
        blanks = -len(group) % columns
        cells += [*group, *(line_handle("", linestyle="none") for _ in range(blanks))]
    by_column = [cell for column in range(columns) for cell in cells[column::columns]]
    figure.legend(handles=by_column, loc="outside lower center", ncols=columns)
