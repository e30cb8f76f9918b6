"""How values are shown that do not exist, lie beyond an axis, or are only bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from ntk_conditioning.plotting.names import LineStyle
from ntk_conditioning.plotting.style import NOTE

LOWER_BOUND: dict[str, Any] = {
    "linestyle": "none",
    "marker": "^",
    "markersize": 4.0,
    "markerfacecolor": "white",
    "markeredgewidth": 0.8,
}
"""How a lower bound looks, in the axes and in a legend."""
_ARROW: dict[str, Any] = {"linestyle": "none", "markersize": 5.5, "markeredgewidth": 0.3}
UP = {**_ARROW, "marker": r"$\uparrow$"}
DOWN = {**_ARROW, "marker": r"$\downarrow$"}
"""How a value beyond the axis looks."""


def mark_lower_bounds(ax: Axes, x: ArrayLike, y: ArrayLike, *, color: str) -> None:
    """Draw open triangles at values of which only a lower bound is known."""
    ax.plot(x, y, color=color, **LOWER_BOUND)


def mark_off_scale(
    ax: Axes,
    rows: Sequence[tuple[Sequence[float], str, LineStyle]],
    *,
    label: str = "",
    edge: Literal["top", "bottom"] = "top",
) -> list[float]:
    """Return the heights of rows of arrows that show where values lie beyond a log axis.

    ``rows`` holds the horizontal positions of a row's arrows, their colour, and the style of the
    line through them; a row without arrows takes no room, and its height is that of the strip's
    edge. Call it when all curves are drawn, since it makes room beside them.
    """
    drawn = [k for k, (x, _, _) in enumerate(rows) if len(x)]
    if not drawn:
        return [ax.get_ylim()[edge == "top"]] * len(rows)
    share = 0.03 + 0.045 * len(drawn)
    low, high = _make_room(ax, share, edge)
    bottom = 1 - share if edge == "top" else 0.0
    strip = Rectangle((0, bottom), 1, share, transform=ax.transAxes, color="#f0f0f0", linewidth=0)
    strip.set_zorder(0)
    ax.add_patch(strip)
    levels = dict.fromkeys(range(len(rows)), float(edge == "top"))
    for place, k in enumerate(drawn):
        levels[k] = bottom + share * (place + 0.5) / len(drawn)
        x, color, line = rows[k]
        at: dict[str, Any] = {"color": color, "transform": ax.get_xaxis_transform()}
        ax.plot(x, [levels[k]] * len(x), linestyle=line, linewidth=0.6, alpha=0.6, **at)
        ax.plot(x, [levels[k]] * len(x), **(UP if edge == "top" else DOWN), **at)
    ax.annotate(
        label,
        (1, bottom + share / 2),
        xycoords="axes fraction",
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        **NOTE,
    )
    return [low * (high / low) ** level for level in levels.values()]


def _make_room(ax: Axes, share: float, edge: str) -> tuple[float, float]:
    """Return new limits of a log axis that leave ``share`` of its height free, without ticks."""
    if not np.isfinite(ax.dataLim.height):  # nothing but arrows, which have no scale
        ax.set_ylim(1, 10)
        for minor in (False, True):
            ax.set_yticks([], minor=minor)
        return ax.get_ylim()
    low, high = ax.get_ylim()
    room = (high / low) ** (share / (1 - share))
    limits = (low, high * room) if edge == "top" else (low / room, high)
    for minor in (False, True):
        ax.set_yticks([y for y in ax.get_yticks(minor=minor) if low <= y <= high], minor=minor)
    ax.set_ylim(*limits)
    return limits
