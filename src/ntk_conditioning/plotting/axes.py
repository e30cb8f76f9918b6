"""Axes of depths, plain numbers on log scales, letters of panels, and marks beside curves."""

import math
from collections.abc import Iterable, Mapping
from string import ascii_lowercase
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MultipleLocator, NullFormatter

from ntk_conditioning.plotting import looks
from ntk_conditioning.plotting.theme import NOTE

DEPTH = "depth $L$ (hidden layers)"
KAPPA = r"condition number $\kappa$"
#: How a second kind of marker looks: filled ones are still seen around it.
HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "markeredgewidth": 0.8}
#: How a lower bound, an error bar and a value beyond the axis look in a legend.
LOWER_BOUND: dict[str, Any] = {"linewidth": 0, "marker": "^", "markersize": 4.0, **HOLLOW}
ERROR: dict[str, Any] = {"linestyle": "none", "marker": r"$\mathtt{I}$", "markersize": 8.0}
_ARROW: dict[str, Any] = {"linestyle": "none", "markersize": 5.5, "markeredgewidth": 0.3}
UP, DOWN = ({**_ARROW, "marker": rf"$\{name}arrow$"} for name in ("up", "down"))
#: Relative errors above this have a bar, and none reaches beyond this factor.
VISIBLE, LONGEST = 1e-3, 10.0


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


def label_panels(axes: Iterable[Axes]) -> None:
    """Write (a), (b), ... before the titles of all axes that are on, unless there is only one."""
    shown = [ax for ax in axes if ax.axison]
    for ax, letter in zip(shown if len(shown) > 1 else [], ascii_lowercase, strict=False):
        ax.set_title(rf"$\mathbf{{({letter})}}$ {ax.get_title('left')}", loc="left")


def arrows(
    ax: Axes,
    missing: pd.DataFrame,
    *,
    x: str,
    hue: str,
    style: str | None = None,
    palette: Mapping[Any, str] | None = None,
    dashes: Mapping[Any, Any] | None = None,
    text: str | None = None,
    label: str = "",
    edge: Literal["top", "bottom"] = "top",
) -> None:
    """Draw an arrow beyond a log axis for each row of ``missing``.

    The arrows of a curve are joined by a line; the values of the column ``text`` stand beside them.
    Looks follow the columns ``hue`` and ``style``, as in `curves`; ``palette`` and ``dashes``
    replace those of `looks`. Call it when all curves are drawn, since it makes room beside them.
    """
    curves = missing.groupby([hue, style] if style else [hue], sort=False, observed=True)
    if missing.empty:
        return
    shades = palette or looks.colors(hue, missing[hue])
    strokes = (dashes or looks.dashes(missing[style])) if style else {}
    inches = ax.bbox.height / ax.figure.dpi  # about, before all is laid out
    share = 0.03 + max(0.045, 6.5 / 72 / inches) * len(curves)
    _make_room(ax, share, edge)
    bottom = 1 - share if edge == "top" else 0.0
    strip: dict[str, Any] = {"color": "#f0f0f0", "linewidth": 0, "zorder": 0}
    ax.add_patch(Rectangle((0, bottom), 1, share, transform=ax.transAxes, **strip))
    right: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", **NOTE}
    ax.annotate(label, (1, bottom + share / 2), xytext=(3, 0), va="center", **right)
    beside: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", **NOTE}
    for place, (values, points) in enumerate(curves):
        level = bottom + share * (place + 0.5) / len(curves)
        arrow = (UP if edge == "top" else DOWN) | {"color": shades[values[0]], "linewidth": 0.6}
        if style:
            arrow["linestyle"] = looks.line_style(strokes[values[1]])
        positions = sorted(points[x].unique())
        along = ax.get_xaxis_transform()  # not clipped, or arrows at the edges are cut
        ax.plot(positions, [level] * len(positions), transform=along, clip_on=False, **arrow)
        for position, words in zip(points[x], points[text], strict=True) if text else []:
            ax.annotate(words, (position, level), xycoords=along, **beside)


def _make_room(ax: Axes, share: float, edge: str) -> None:
    """Leave ``share`` of a log axis's height free, without ticks."""
    curves = any(
        np.isfinite(each.dataLim.height) for each in ax.get_shared_y_axes().get_siblings(ax)
    )
    if not curves:
        ax.set_ylim(1, 10)
    low, high = ax.get_ylim()
    for minor in (False, True):
        ticks = [y for y in ax.get_yticks(minor=minor) if low <= y <= high]
        ax.set_yticks(ticks if curves else [], minor=minor)  # arrows alone have no scale
    room = (high / low) ** (share / (1 - share))
    ax.set_ylim(*(low, high * room) if edge == "top" else (low / room, high))


def error_bars(
    ax: Axes, data: pd.DataFrame, *, x: str, y: str, error: str, hue: str, **_: Any
) -> bool:
    """Draw bars from y / (1 + error) to y (1 + error), and return whether there are any.

    Only errors above `VISIBLE` have a bar, and none is longer than `LONGEST`.
    """
    shades = looks.colors(hue, data[hue])
    shown = data[(data[error] > VISIBLE) & data[y].notna()]
    for value, rows in shown.groupby(hue, observed=True):
        factor = 1 + rows[error].clip(upper=LONGEST - 1)
        lengths = [rows[y] - rows[y] / factor, rows[y] * factor - rows[y]]
        ax.errorbar(rows[x], rows[y], lengths, fmt="none", ecolor=shades[value], capsize=3)
    return len(shown) > 0
