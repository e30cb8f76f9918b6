"""Axes of depths, plain numbers on log scales, and letters of panels."""

import math
from collections.abc import Iterable
from string import ascii_lowercase
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MultipleLocator, NullFormatter

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


def label_panels(axes: Iterable[Axes]) -> None:
    """Write (a), (b), ... before the titles of all axes that are on, unless there is only one."""
    shown = [ax for ax in axes if ax.axison]
    for ax, letter in zip(shown if len(shown) > 1 else [], ascii_lowercase, strict=False):
        ax.set_title(rf"$\mathbf{{({letter})}}$ {ax.get_title('left')}", loc="left")
