"""Marks beside curves: lines' names, and values that are missing, bounded or beyond an axis."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.path import Path
from matplotlib.transforms import offset_copy
from numpy.typing import ArrayLike

from ntk_conditioning.plotting import looks
from ntk_conditioning.plotting.theme import NOTE

#: How a second kind of marker looks: filled ones are still seen around it.
HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "markeredgewidth": 0.8}
#: How a lower bound looks, and how a value beyond the axis does, in the axes and in a legend.
LOWER_BOUND: dict[str, Any] = {"linestyle": "none", "marker": "^", "markersize": 4.0, **HOLLOW}
#: How the bar over what a value may be looks in a legend. Errors above the first have one, and none
#: reaches beyond this factor.
_BAR = Path([(-1, -1), (1, -1), (-1, 1), (1, 1), (0, -1), (0, 1)], [Path.MOVETO, Path.LINETO] * 3)
_THIN: dict[str, Any] = {"linestyle": "none", "markeredgewidth": 0.8}
ERROR: dict[str, Any] = {"marker": _BAR, "markersize": 8.0, **_THIN}
VISIBLE, LONGEST = 1e-3, 10.0
_ARROW: dict[str, Any] = {"linestyle": "none", "markersize": 5.5, "markeredgewidth": 0.3}
UP, DOWN = ({**_ARROW, "marker": rf"$\{name}arrow$"} for name in ("up", "down"))


def arrows(ax: Axes, missing: pd.DataFrame, **options: Any) -> None:
    """Draw an arrow beyond a log axis for each row of ``missing``, as `arrow_heights`."""
    arrow_heights(ax, missing, **options)


def arrow_heights(
    ax: Axes,
    missing: pd.DataFrame,
    *,
    x: str,
    hue: str,
    style: str | None = None,
    palette: Mapping[Any, str] | None = None,
    dashes: Mapping[Any, Any] | None = None,
    label: str = "",
    edge: Literal["top", "bottom"] = "top",
    room: int = 0,
) -> pd.Series:
    """Return where an arrow beyond a log axis is drawn for each row of ``missing``.

    Each curve has a strip. Looks follow the columns ``hue`` and ``style``, as in `curves`;
    ``palette`` and ``dashes`` replace those of `looks`. Call it when all curves are drawn.
    """
    keys = [hue, style] if style else [hue]
    shades = palette or looks.colors(hue, missing[hue])
    shapes = looks.markers(hue, missing[hue])
    strokes = (dashes or looks.dashes(missing[style])) if style else {}
    strips = missing.groupby(keys, sort=False)
    rows = []
    for values, points in strips:
        line = looks.line_style(strokes[values[1]]) if style else "none"
        rows.append((sorted(points[x].unique()), shades[values[0]], line, shapes[values[0]]))
    heights = mark_off_scale(ax, rows, label=label, edge=edge, room=room)
    return strips.ngroup().map(dict(enumerate(heights))).astype(float)


def mark_off_scale(
    ax: Axes,
    rows: Sequence[tuple[Sequence[float], str, Any, str]],
    *,
    label: str = "",
    edge: Literal["top", "bottom"] = "top",
    room: int = 0,
) -> list[float]:
    """Return the heights of rows of arrows that show where values lie beyond a log axis.

    ``rows`` holds the horizontal positions of a row's arrows, their colour, the style of the line
    through them, and the marker beside the row ("" for none). A row without arrows takes no room,
    and its height is that of the strip's edge. The strip has ``room`` for at least that many rows,
    so that axes side by side have equal strips. Call it when all curves are drawn, since it makes
    room beside them.
    """
    drawn = [k for k, (x, *_) in enumerate(rows) if len(x)]
    if not drawn and not room:
        return [ax.get_ylim()[edge == "top"]] * len(rows)
    figure = ax.get_figure(root=True)
    assert figure is not None
    inches = ax.get_position().height * figure.get_figheight()  # about, before all is laid out
    share = 0.03 + max(0.045, 6.5 / 72 / inches) * max(room, len(drawn))
    low, high = _make_room(ax, share, edge)
    bottom = 1 - share if edge == "top" else 0.0
    strip = Rectangle((0, bottom), 1, share, transform=ax.transAxes, color="#f0f0f0", linewidth=0)
    strip.set_zorder(0)
    ax.add_patch(strip)
    levels = [float(edge == "top")] * len(rows)
    for place, k in enumerate(drawn):
        levels[k] = bottom + share * (place + 0.5) / len(drawn)
        x, color, line, marker = rows[k]
        at: dict[str, Any] = {"color": color, "transform": ax.get_xaxis_transform()}
        at["clip_on"] = False  # or arrows at the edges are cut
        ax.plot(x, [levels[k]] * len(x), linestyle=line, linewidth=0.6, alpha=0.6, **at)
        ax.plot(x, [levels[k]] * len(x), **(UP if edge == "top" else DOWN), **at)
        if marker:
            beside = offset_copy(ax.transAxes, figure, x=5, units="points")
            ax.plot(1, levels[k], marker, color=color, transform=beside, clip_on=False)
    words_at = (10 if any(rows[k][3] for k in drawn) else 3, 0)
    right: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", **NOTE}
    ax.annotate(label, (1, bottom + share / 2), xytext=words_at, va="center", **right)
    return [low * (high / low) ** level for level in levels]


def lower_bounds(ax: Axes, data: pd.DataFrame, *, x: str, y: str, hue: str, **_: Any) -> bool:
    """Draw open triangles, and return whether there are any."""
    shades = looks.colors(hue, data[hue])
    for value, rows in data.groupby(hue):
        ax.plot(rows[x], rows[y].astype(float), color=shades[value], **LOWER_BOUND)
    return len(data) > 0


def error_bars(
    ax: Axes, data: pd.DataFrame, *, x: str, y: str, error: str, hue: str, **_: Any
) -> bool:
    """Draw bars over relative errors, as `draw_errors`, and return whether there are any."""
    shades = looks.colors(hue, data[hue])
    drawn = [
        draw_errors(ax, rows[x], rows[y], rows[error], color=shades[value])
        for value, rows in data.groupby(hue)
    ]
    return any(drawn)


def draw_errors(ax: Axes, x: ArrayLike, y: ArrayLike, error: ArrayLike, *, color: str) -> bool:
    """Draw bars from y / (1 + error) to y (1 + error), and return whether there is any.

    Errors are relative. Only those above `VISIBLE` have a bar, and none is longer than `LONGEST`.
    """
    x, y, error = (np.asarray(values, dtype=np.float64) for values in (x, y, error))
    shown = np.isfinite(y) & (error > VISIBLE)
    if not shown.any():
        return False
    factor = 1 + np.minimum(error[shown], LONGEST - 1)
    low, high = y[shown] / factor, y[shown] * factor
    ax.vlines(x[shown], low, high, color=color, linewidth=_THIN["markeredgewidth"])
    for end in (low, high):
        ax.plot(x[shown], end, "_", color=color, markersize=8.0, **_THIN)
    return True


def _make_room(ax: Axes, share: float, edge: str) -> tuple[float, float]:
    """Return new limits of a log axis that leave ``share`` of its height free, without ticks."""
    drawn = (each.dataLim.height for each in ax.get_shared_y_axes().get_siblings(ax))
    if not np.isfinite([*drawn]).any():  # nothing but arrows, which have no scale
        ax.set_ylim(1, 10)
        for minor in (False, True):
            ax.set_yticks([], minor=minor)
        return ax.get_ylim()
    low, high = ax.get_ylim()
    for minor in (False, True):
        ax.set_yticks([y for y in ax.get_yticks(minor=minor) if low <= y <= high], minor=minor)
    room = (high / low) ** (share / (1 - share))
    limits = (low, high * room) if edge == "top" else (low / room, high)
    ax.set_ylim(*limits)
    return limits


def label_line_ends(
    ax: Axes, ends: Sequence[tuple[float, float, str, str]], *, fontsize: float = 6.5
) -> None:
    """Write lines' names on the right, joined to their ends: x, y, text and colour of each.

    Names that would overlap are moved apart. Call it when the limits of the axes are final.
    """
    figure = ax.get_figure(root=True)
    if not ends or figure is None:
        return
    figure.draw_without_rendering()  # places the axes, whose height decides what overlaps
    inches = ax.get_window_extent().height / figure.dpi
    ends = sorted(ends, key=lambda end: end[1])
    pixels = ax.transData.transform([end[:2] for end in ends])
    heights = ax.transAxes.inverted().transform(pixels)[:, 1]
    levels = spread(heights, gap=1.2 * fontsize / 72 / inches)
    thin: dict[str, Any] = {"arrowstyle": "-", "linewidth": 0.5, "alpha": 0.6}
    thin |= {"relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 2}
    beside: dict[str, Any] = {"textcoords": "axes fraction", "va": "center", "fontsize": fontsize}
    for (x, y, text, color), level in zip(ends, levels, strict=True):
        line: dict[str, Any] = {"annotation_clip": False, "arrowprops": {"color": color, **thin}}
        ax.annotate(text, (x, y), xytext=(1.07, level), color=color, **beside, **line)


def spread(levels: ArrayLike, *, gap: float) -> list[float]:
    """Return ascending levels at least ``gap`` apart, by least squares from the given ones.

    >>> spread([0.0, 1.0, 1.0], gap=0.5)
    [0.0, 0.75, 1.25]
    """
    from scipy.optimize import isotonic_regression  # slow to import, and few figures need it

    levels = np.asarray(levels)
    steps = gap * np.arange(len(levels))
    return list(map(float, isotonic_regression(levels - steps).x + steps))
