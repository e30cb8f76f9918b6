"""How figures look: sizes, fonts, colours, words on axes, and how missing values are shown.

Only drawing: every number that is drawn comes from a table or from another module.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import LogLocator, MultipleLocator, NullFormatter
from numpy.typing import ArrayLike

from ntk_conditioning.files import atomic

SINGLE_COLUMN = 3.4
"""Width in inches of a figure in one column."""
DOUBLE_COLUMN = 7.0
"""Width in inches of a figure across the page."""

DEPTH = "depth $L$ (hidden layers)"
KAPPA = r"condition number $\kappa$"
MIN_ANGLE = r"smallest gradient angle $\min_{i\neq j}\,\phi(x_i,x_j)$ [°]"
INPUT_ANGLE = r"input angle $\theta_{\mathrm{in}}$ [°]"
GRADIENT_ANGLE = r"gradient angle $\phi$ [°]"
EIGENVALUE = r"eigenvalue $\lambda_i\,/\,\lambda_{\max}$"
EIGENVALUE_INDEX = "index $i\\,/\\,n$"

RULE_COLOR = "#8a8a8a"
"""Grey of reference lines."""
NOTE: dict[str, Any] = {"fontsize": 6.5, "color": "#555555"}
"""How words inside the axes look."""

# Okabe & Ito (2008) and Tol (2021, "muted"): told apart with any colour vision.
_DATASET_COLORS = {
    "synthetic": "#0072B2",
    "digits": "#D55E00",
    "patches": "#009E73",
    "mnist": "#CC79A7",
    "fashion_mnist": "#E69F00",
    "synthetic10": "#56B4E9",
    "svhn": "#000000",
    "librispeech": "#7F5539",
    "librispeech_sample": "#6611CC",
    "cifar10": "#882255",
    "digits_sphere": "#992E00",
}
_ACTIVATION_COLORS = {
    "relu": "#332288",
    "linear": "#000000",
    "leaky_relu": "#88CCEE",
    "erf": "#44AA99",
    "tanh": "#117733",
    "gelu": "#CC6677",
    "selu": "#882255",
    "sigmoid": "#DDAA33",
    "softplus": "#AA4499",
}
_OTHER_COLORS = ("#EE7733", "#0077BB", "#999933", "#CC3311", "#009988", "#4D4D4D")

_DATASET_LABELS = {
    "synthetic": "Synthetic",
    "synthetic10": "Synthetic (10-d)",
    "digits": "Digits",
    "digits_sphere": "Digits on the sphere",
    "patches": "Patches",
    "mnist": "MNIST",
    "fashion_mnist": "f-MNIST",
    "svhn": "SVHN",
    "librispeech": "Librispeech",
    "librispeech_sample": "Synthesised speech",
    "cifar10": "CIFAR-10",
}
_ACTIVATION_LABELS = {
    "relu": "ReLU",
    "leaky_relu": "leaky ReLU",
    "gelu": "GELU",
    "selu": "SELU",
}
_NORMALIZED = "normalized_"

_LINE_STYLES: tuple[Any, ...] = ("-", (0, (1, 1.2)), "-.", (0, (3, 1, 1, 1, 1, 1)))
DASHED: Any = (0, (4, 1.6))

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

LineStyle: TypeAlias = "str | tuple[float, Sequence[float]]"


def use_style() -> None:
    """Make all figures that follow look alike, whatever matplotlib's own settings are."""
    mpl.rcdefaults()
    mpl.rcParams.update(
        {
            # The fonts that come with matplotlib: the same figure on every machine.
            "font.family": "DejaVu Sans",
            "mathtext.fontset": "dejavusans",
            "font.size": 8,
            "axes.titlesize": 8.5,
            "axes.labelsize": 8,
            "xtick.labelsize": 7,
            "ytick.labelsize": 7,
            "legend.fontsize": 7,
            "legend.frameon": False,
            "legend.handlelength": 2.2,
            "legend.columnspacing": 1.4,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.6,
            "axes.edgecolor": "#333333",
            "axes.titlelocation": "left",
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "xtick.minor.width": 0.4,
            "ytick.minor.width": 0.4,
            "xtick.major.size": 3,
            "ytick.major.size": 3,
            "xtick.minor.size": 1.6,
            "ytick.minor.size": 1.6,
            "lines.linewidth": 1.4,
            "lines.markersize": 2.6,
            "lines.solid_capstyle": "round",
            "figure.dpi": 150,
            "figure.constrained_layout.use": True,
            "pdf.fonttype": 42,  # TrueType: text stays text, and journals take it
            "ps.fonttype": 42,
            "svg.fonttype": "none",
            "svg.hashsalt": "ntk-conditioning",  # else every SVG has other ids
        }
    )


# --- names and colours ----------------------------------------------------------------------------


def dataset_label(name: str) -> str:
    """Return a dataset's name as it is printed.

    >>> dataset_label("fashion_mnist"), dataset_label("my_data")
    ('f-MNIST', 'my data')
    """
    return _DATASET_LABELS.get(name, name.replace("_", " "))


def dataset_order(name: str) -> tuple[int, str]:
    """Return a key that sorts datasets: those of the catalogue in its order, then others by name.

    >>> sorted(["mine", "mnist", "digits"], key=dataset_order)
    ['digits', 'mnist', 'mine']
    """
    known = list(_DATASET_COLORS)
    return (known.index(name) if name in known else len(known)), name


def activation_label(name: str) -> str:
    """Return an activation's name as it is printed.

    >>> activation_label("normalized_leaky_relu-0.2")
    'normalised leaky ReLU (0.2)'
    """
    base, _, slope = name.removeprefix(_NORMALIZED).partition("-")
    label = _ACTIVATION_LABELS.get(base, base.replace("_", " "))
    return (
        ("normalised " if name.startswith(_NORMALIZED) else "")
        + label
        + (f" ({slope})" if slope else "")
    )


def dataset_colors(names: Iterable[str]) -> dict[str, str]:
    """Return a colour per dataset; one that the catalogue lacks gets a spare colour by its name."""
    return _colors(names, _DATASET_COLORS)


def activation_colors(names: Iterable[str]) -> dict[str, str]:
    """Return a colour per activation, which its normalised variant shares.

    >>> colors = activation_colors(["normalized_relu", "relu", "swish"])
    >>> colors["normalized_relu"] == colors["relu"] != colors["swish"]
    True
    """
    names = list(names)
    bases = _colors((name.removeprefix(_NORMALIZED) for name in names), _ACTIVATION_COLORS)
    return {name: bases[name.removeprefix(_NORMALIZED)] for name in names}


def _colors(names: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for name in names:
        if name in known:
            chosen[name] = known[name]
        elif name not in chosen:
            # By its name and not by its place, so that it keeps its colour from figure to figure.
            start = zlib.crc32(name.encode()) % len(_OTHER_COLORS)
            turned = _OTHER_COLORS[start:] + _OTHER_COLORS[:start]
            free = [color for color in turned if color not in chosen.values()]
            chosen[name] = (free or turned)[0]
    return chosen


def depth_colors(depths: Iterable[int]) -> dict[int, str]:
    """Return a sequence of colours that darken with depth.

    >>> list(depth_colors([4, 1]))
    [1, 4]
    """
    depths = sorted(set(depths))
    shades = np.linspace(0.82, 0.05, len(depths)) if len(depths) != 1 else [0.4]
    return {
        depth: to_hex(mpl.colormaps["viridis"](shade))
        for depth, shade in zip(depths, shades, strict=True)
    }


def activation_lines(names: Iterable[str]) -> dict[str, LineStyle]:
    """Return a line style per activation: dashes for linear, a solid line for the first other.

    >>> activation_lines(["linear", "relu"])["relu"]
    '-'
    """
    others = [name for name in dict.fromkeys(names) if name != "linear"]
    styles = {name: _LINE_STYLES[k % len(_LINE_STYLES)] for k, name in enumerate(others)}
    return {**styles, "linear": DASHED}


# --- drawing --------------------------------------------------------------------------------------


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


def depth_axis(ax: Axes, depths: Iterable[int]) -> None:
    """Let the horizontal axis count hidden layers, in whole numbers."""
    depths = list(depths)
    first, last = min(depths), max(depths)
    ax.set_xlabel(DEPTH)
    ax.xaxis.set_major_locator(MultipleLocator(max(1, math.ceil((last - first) / 10))))
    margin = 0.1 + 0.03 * (last - first)
    ax.set_xlim(first - margin, last + margin)


def degree_axis(ax: Axes) -> None:
    """Let the vertical axis be logarithmic, with angles in plain numbers."""
    ax.set_yscale("log")
    plain_log(ax, "y")


def plain_log(ax: Axes, which: Literal["x", "y"]) -> None:
    """Write plain numbers along a logarithmic axis, as many as it takes; call it with all drawn."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    low, high = axis.get_view_interval()
    many = 300 if which == "y" else 60  # numbers side by side need more room
    steps = [1.0, 2.0, 5.0] if high / low < many else [1.0]
    if high / low < 8:
        steps = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


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
    points = [(x, y) for x, y, _, _ in ends]
    wanted = [
        float(y) for _, y in ax.transAxes.inverted().transform(ax.transData.transform(points))
    ]
    levels = spread(wanted, gap=1.2 * fontsize / 72 / inches)
    for (x, y, text, color), level in zip(ends, levels, strict=True):
        ax.annotate(
            text,
            (x, y),
            xytext=(1.07, level),
            textcoords="axes fraction",
            va="center",
            fontsize=fontsize,
            color=color,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linewidth": 0.5,
                "alpha": 0.6,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 2,
            },
        )


def spread(levels: Sequence[float], *, gap: float) -> list[float]:
    """Return ascending levels at least ``gap`` apart, each group centred where it wants to be.

    >>> spread([0.0, 1.0, 1.0], gap=0.5)
    [0.0, 0.75, 1.25]
    """
    groups: list[list[float]] = []
    for level in levels:
        groups.append([level])
        while len(groups) > 1 and _placed(groups[-1], gap)[0] < _placed(groups[-2], gap)[-1] + gap:
            groups[-2].extend(groups.pop())
    return [level for group in groups for level in _placed(group, gap)]


def _placed(wanted: Sequence[float], gap: float) -> list[float]:
    first = sum(wanted) / len(wanted) - gap * (len(wanted) - 1) / 2
    return [first + gap * k for k in range(len(wanted))]


def save_figure(figure: Figure, *, pdf: str | Path, png: str | Path) -> None:
    """Write a figure as PDF and as PNG (200 dpi), each whole or not at all.

    The same figure gives the same bytes: no dates or versions are written.
    """
    with atomic(Path(pdf)) as temporary:
        figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})
    with atomic(Path(png)) as temporary:
        figure.savefig(temporary, format="png", dpi=200, metadata={"Software": None})
