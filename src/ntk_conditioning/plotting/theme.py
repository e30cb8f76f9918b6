"""Sizes, fonts and files of figures: alike on every machine, and the same bytes each time."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from ntk_conditioning.files import atomic

#: Widths in inches of a figure in one column and across the page.
SINGLE_COLUMN, DOUBLE_COLUMN = 3.4, 7.0
PAGE = 9.0  # greatest height, which leaves room for the caption
RULE_COLOR = "#8a8a8a"  # grey of reference lines
NOTE: dict[str, Any] = {"fontsize": 6.5, "color": "#555555"}  # words inside the axes
FONT_SCALE = 0.82  # seaborn's "paper" has 9.6 points
#: What seaborn's theme "ticks" leaves open, in points.
RC: dict[str, Any] = {
    "mathtext.fontset": "dejavusans",
    "axes.titlelocation": "left",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.columnspacing": 1.4,
    **{f"{axis}tick.major.size": 3 for axis in "xy"},
    **{f"{axis}tick.major.width": 0.6 for axis in "xy"},
    **{f"{axis}tick.minor.size": 1.6 for axis in "xy"},
    "lines.linewidth": 1.4,
    "lines.solid_capstyle": "round",
    "lines.markersize": 3.6,
    "lines.markeredgewidth": 0.4,  # a thick edge rounds all shapes
    "figure.dpi": 200,
    "savefig.dpi": "figure",
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,  # TrueType: text stays text, and journals take it
}


def use_theme() -> None:
    """Make all figures that follow look alike, whatever matplotlib's own settings are."""
    mpl.rcdefaults()
    look: dict[str, Any] = {"font": "DejaVu Sans", "font_scale": FONT_SCALE}  # matplotlib's font
    sns.set_theme("paper", "ticks", rc=RC, **look)


def save_figure(figure: Figure, *, pdf: str | Path, png: str | Path) -> Any:
    """Write a figure as PDF and as PNG (200 dpi), each whole or not at all, and close it.

    The same figure gives the same bytes: no dates or versions are written. Returns the PNG as
    Jupyter shows it.
    """
    from IPython import display  # slow to import

    with atomic(Path(png)) as temporary:
        figure.savefig(temporary, format="png", metadata={"Software": None})
    figure.set_layout_engine("none")  # what has been laid out is not laid out once more
    nothing = dict.fromkeys(("CreationDate", "Creator", "Producer"))
    with atomic(Path(pdf)) as temporary:
        figure.savefig(temporary, format="pdf", metadata=nothing)
    plt.close(figure)
    shown: Any = display.Image
    return shown(filename=png)
