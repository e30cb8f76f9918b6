"""Marks beside curves: values that are missing, bounded or beyond an axis."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ntk_conditioning.plotting import looks
from ntk_conditioning.plotting.theme import NOTE

#: How a second kind of marker looks: filled ones are still seen around it.
HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "markeredgewidth": 0.8}
#: How a lower bound, an error bar and a value beyond the axis look in a legend.
LOWER_BOUND: dict[str, Any] = {"linewidth": 0, "marker": "^", "markersize": 4.0, **HOLLOW}
ERROR: dict[str, Any] = {"linestyle": "none", "marker": r"$\mathtt{I}$", "markersize": 8.0}
_ARROW: dict[str, Any] = {"linestyle": "none", "markersize": 5.5, "markeredgewidth": 0.3}
UP, DOWN = ({**_ARROW, "marker": rf"$\{name}arrow$"} for name in ("up", "down"))
#: Relative errors above this have a bar, and none reaches beyond this factor.
VISIBLE, LONGEST = 1e-3, 10.0


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
    figure = ax.get_figure(root=True)
    assert figure is not None
    inches = ax.get_position().height * figure.get_figheight()  # about, before all is laid out
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
