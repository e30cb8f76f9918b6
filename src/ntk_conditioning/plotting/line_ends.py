"""Names of lines, written at their ends."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes


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
