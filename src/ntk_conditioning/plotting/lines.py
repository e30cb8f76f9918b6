"""Curves by seaborn, with what it leaves out: gaps at missing values, and legends by column.

Colours, markers and dashes follow columns of the frame, as `looks` has them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ntk_conditioning.plotting import looks
from ntk_conditioning.plotting.theme import RULE_COLOR

BAND: dict[str, Any] = {"alpha": 0.16, "linewidth": 0}


def curves(
    data: pd.DataFrame,
    *,
    x: str,
    y: str,
    hue: str | None = None,
    style: str | None = None,
    ax: Axes | None = None,
    band: tuple[str, str] | None = None,
    palette: Mapping[Any, str] | None = None,
    dashes: Mapping[Any, Any] | None = None,
    markers: bool = True,
    **line: Any,
) -> None:
    """Draw the mean of ``y`` over the rows that share an ``x``, and a band over their range.

    There is a curve for each value of the columns ``hue``, which also chooses the marker, and
    ``style``, which chooses the dashes. A point is drawn if all of its rows have a value; neither
    line nor band crosses one that is not drawn. ``band`` names the columns of the range where ``y``
    is a mean already. ``palette`` and ``dashes`` replace those of `looks`; further options are of
    matplotlib's lines. `seaborn.FacetGrid.map_dataframe` takes this function.
    """
    ax = ax or plt.gca()
    if ax.get_yscale() != "linear":  # seaborn would draw the geometric mean
        raise ValueError("draw the curves before the axis becomes logarithmic")
    if data.empty:
        return
    points = _without_gaps(data, x, y, list(dict.fromkeys(key for key in (hue, style) if key)))
    first = points.drop_duplicates("curve").set_index("curve")
    values = first[hue] if hue else pd.Series("", first.index)
    shades = dict(palette or looks.colors(hue, data[hue])) if hue else {}
    shapes = looks.markers(hue or "", data[hue] if hue else [""])
    strokes = (dashes or looks.dashes(data[style])) if style else {}
    look: dict[str, Any] = {
        "markers": {curve: shapes[value] for curve, value in values.items()} if markers else False,
        "dashes": {c: strokes[first.loc[c, style]] if style else "" for c in first.index},
    }
    if hue:
        look |= {"hue": hue, "palette": shades}
        line.pop("color", None)  # a FacetGrid gives one
    line = {"markeredgewidth": 0.4, "markeredgecolor": "auto", **line}
    line.pop("label", None)
    spread = {"errorbar": None if band else ("pi", 100), "err_kws": BAND}
    for _, segment in points.groupby("segment"):
        sns.lineplot(
            segment, x=x, y=y, style="curve", ax=ax, legend=False, **spread, **look, **line
        )
    for (curve, _), segment in points.groupby(["curve", "segment"]):
        shade = shades[values[curve]] if hue else line.get("color")
        if band:
            low, high = (segment[name].astype(float) for name in band)
            ax.fill_between(segment[x], low, high, color=shade, zorder=1, **BAND)
        if not markers and segment[x].nunique() == 1:  # a line of one point is not seen
            ax.plot(segment[x], segment[y], ".", color=shade, alpha=line.get("alpha"))


def _without_gaps(data: pd.DataFrame, x: str, y: str, keys: list[str]) -> pd.DataFrame:
    """Return the points that have all their values, with their curve and its segment.

    Points without a gap between them are a segment, which seaborn draws.
    """
    points = data.astype({y: float}).sort_values([*keys, x])
    points["curve"] = points[keys].astype(str).agg(", ".join, axis="columns") if keys else ""
    exists = points[y].notna().groupby([points["curve"], points[x]]).transform("all")
    points["segment"] = (~exists).groupby(points["curve"]).cumsum()
    return points[exists]


def samples(
    column: str, values: Iterable[Any], *, by: str = "hue", suffix: str = "", **line: Any
) -> list[Line2D]:
    """Return a legend's samples of a column's values: by "hue", with markers, or by "style".

    ``suffix`` follows each name.

    >>> [line.get_label() for line in samples("depth", [1, 2])]
    ['$L$ = 1', '$L$ = 2']
    """
    values = list(dict.fromkeys(values))
    colors, markers = looks.colors(column, values), looks.markers(column, values)
    styles = looks.dashes(values)
    handles = []
    for value in values:
        look: dict[str, Any] = {"color": colors[value], "marker": markers[value]}
        if by == "style":
            look = {"linestyle": looks.line_style(styles[value])}
        handles.append(sample(looks.label(column, value) + suffix, **look | line))
    return handles


def sample(label: str, **line: Any) -> Line2D:
    """Return a legend's sample of a line."""
    return Line2D([], [], label=label, **{"color": "#333333", **line})


def band_sample(label: str) -> Patch:
    """Return a legend's sample of a band."""
    return Patch(facecolor=RULE_COLOR, alpha=0.3, linewidth=0, label=label)


def seed_samples(seeds: Iterable[int]) -> list[Patch]:
    """Return the legend's sample of a band over so many seeds; none for one seed.

    >>> [band.get_label() for seeds in ([1], [3], [2, 3]) for band in seed_samples(seeds)]
    ['range over 3 seeds', 'range over 2 / 3 seeds']
    """
    numbers = sorted(set(seeds))
    if not numbers or numbers[-1] == 1:
        return []
    return [band_sample(f"range over {' / '.join(map(str, numbers))} seeds")]


def legend(figure: Figure, *groups: Sequence[Line2D | Patch], columns: int = 4) -> None:
    """Write a legend below the axes, each group of samples on rows of its own."""
    columns = min(columns, max(map(len, groups), default=0))
    if not columns:
        return
    cells: list[Line2D | Patch] = []
    for group in groups:
        cells += [*group, *(sample("", linestyle="none") for _ in range(-len(group) % columns))]
    by_column = [cell for column in range(columns) for cell in cells[column::columns]]
    figure.legend(handles=by_column, loc="outside lower center", ncols=columns)
