"""What axes say and count: words, depths, and plain numbers on logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MultipleLocator, NullFormatter

DEPTH = "depth $L$ (hidden layers)"
KAPPA = r"condition number $\kappa$"
MIN_ANGLE = r"smallest gradient angle $\min_{i\neq j}\,\phi(x_i,x_j)$ [°]"
INPUT_ANGLE = r"input angle $\theta_{\mathrm{in}}$ [°]"
GRADIENT_ANGLE = r"gradient angle $\phi$ [°]"
EIGENVALUE = r"eigenvalue $\lambda_i\,/\,\lambda_{\max}$"
EIGENVALUE_INDEX = "index $i\\,/\\,n$"


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
