"""How figures look, and nothing else: every number that is drawn comes from another module.

Curves are seaborn's, which draws no gaps at missing values. Colours, markers and dashes follow
columns of the frame, as `looks` has them.
"""
# ruff: noqa: F401

import math
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator, MultipleLocator, NullFormatter

from ntk_conditioning.plotting import looks
from ntk_conditioning.plotting.theme import (
    DOUBLE_COLUMN,
    NOTE,
    PAGE,
    RULE_COLOR,
    SINGLE_COLUMN,
    save_figure,
    use_theme,
)

label = looks.label
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
BAND: dict[str, Any] = {"alpha": 0.16, "linewidth": 0}
#: The line at the accuracy of guesses.
CHANCE: dict[str, Any] = {"color": RULE_COLOR, "linestyle": ":", "linewidth": 0.9}
#: What tells networks of one setting apart, and what a panel of accuracies shows.
NETWORK, SETTING = ["model", "activation"], ["dataset", "depth"]
Network: TypeAlias = tuple[str, str]  # its kind and its activation


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
    keys = list(dict.fromkeys(key for key in (hue, style) if key))
    points = data.astype({y: float}).sort_values([*keys, x])
    points["curve"] = points[keys].astype(str).agg(", ".join, axis="columns") if keys else ""
    exists = points[y].notna().groupby([points["curve"], points[x]]).transform("all")
    points["segment"] = (~exists).groupby(points["curve"]).cumsum()  # between two gaps
    shades = dict(palette or looks.colors(hue, data[hue])) if hue else {}
    shapes = looks.markers(hue or "", data[hue] if hue else [""])
    strokes = (dashes or looks.dashes(data[style])) if style else {}
    line.pop("label", None)  # a FacetGrid gives one, and a colour
    for _, segment in points[exists].groupby(["curve", "segment"], sort=False):
        first = segment.iloc[0]
        look: dict[str, Any] = {"markeredgewidth": 0.4, "markeredgecolor": "auto", **line}
        look |= {"color": shades[first[hue]]} if hue else {}
        look |= {"marker": shapes[first[hue] if hue else ""]} if markers else {}
        look |= {"dashes": strokes[first[style]] if style else ""}
        look |= {"errorbar": None if band else ("pi", 100), "err_kws": BAND}
        sns.lineplot(segment, x=x, y=y, ax=ax, legend=False, **look)
        shade = ax.lines[-1].get_color()
        if band:
            low, high = (segment[name].astype(float) for name in band)
            ax.fill_between(segment[x], low, high, color=shade, zorder=1, **BAND)
        if not markers and segment[x].nunique() == 1:  # a line of one point is not seen
            ax.plot(segment[x], segment[y], ".", color=shade, alpha=line.get("alpha"))


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
    columns = min(columns, max(map(len, groups)))
    cells: list[Line2D | Patch] = []
    for group in groups:
        cells += [*group, *(sample("", linestyle="none") for _ in range(-len(group) % columns))]
    by_column = [cell for column in range(columns) for cell in cells[column::columns]]
    figure.legend(handles=by_column, loc="outside lower center", ncols=columns)


def network_label(network: Network) -> str:
    """Return what tells a network from others of its kind: its normalisation and its activation.

    >>> network_label(("fc_batch_norm", "relu")), network_label(("resnet", "selu"))
    ('batch norm, ReLU', 'SELU')
    """
    kinds = dict.fromkeys([_kind(network), ("activation", network[1])])
    return ", ".join(looks.label(*kind) for kind in kinds)


def network_look(network: Network) -> dict[str, str]:
    """Return colour and marker: of the normalisation if there is one, else of the activation."""
    column, value = _kind(network)
    color, marker = (of(column, [value])[value] for of in (looks.colors, looks.markers))
    return {"color": color, "marker": marker}


def _kind(network: Network) -> tuple[str, str]:
    remedies = [name for name in looks.LOOKS["remedy"] if network[0].endswith(f"_{name}")]
    return ("remedy", remedies[0]) if remedies else ("activation", network[1])


def epoch_axis(ax: Axes, training: pd.DataFrame) -> None:
    """Let the horizontal axis count epochs, in whole numbers."""
    ax.set_xlabel("epoch")
    last = training["epoch"].max()
    ax.set_xlim(-0.02 * last, 1.02 * last)  # room for markers
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def draw_accuracies(training: pd.DataFrame) -> Figure:
    """Return a figure of training and test accuracy of all networks, a row for each depth.

    ``training`` has the rows of the table `training` that are to be drawn: one rate per network.
    """
    settings = list(training.groupby(SETTING))
    if not settings:
        figure, ax = plt.subplots(figsize=(DOUBLE_COLUMN, 1.2))
        ax.set_axis_off()
        ax.text(0.5, 0.5, "every network diverged at every rate", ha="center", **NOTE)
        return figure
    size = (DOUBLE_COLUMN, min(0.7 + 2.1 * len(settings), PAGE))
    figure, axes = plt.subplots(len(settings), 2, figsize=size, squeeze=False, sharey="row")
    for ((dataset, depth), here), row in zip(settings, axes, strict=True):
        for ax, part in zip(row, ("train", "test"), strict=True):
            ax.axhline(1 / here["classes"].iloc[0], **CHANCE)
            for network, seeds in here.groupby(NETWORK):
                line: dict[str, Any] = {**network_look(network), "markevery": 0.2}
                metric = f"{part}_accuracy"
                curves(seeds, x="epoch", y=metric, ax=ax, markers=False, **line)
            epoch_axis(ax, here)
            title = f"{looks.label('dataset', dataset)}, depth {depth}, {widths(here)}: {part}"
            ax.set(title=title, ylabel="")
        row[0].set_ylabel("accuracy")
    networks = training[NETWORK].drop_duplicates().itertuples(index=False, name=None)
    networks = sorted(networks, key=lambda network: (_kind(network)[0] != "remedy", network))
    handles = [sample(network_label(network), **network_look(network)) for network in networks]
    chance = sample("chance", **CHANCE)
    legend(figure, handles, [chance, *seed_samples([training["seed"].nunique()])])
    label_panels(axes.flat)
    return figure


def widths(training: pd.DataFrame) -> str:
    """Return in words how wide networks are."""
    return f"width {' / '.join(map(str, sorted(training['width'].unique())))}"
