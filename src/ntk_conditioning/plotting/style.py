"""Sizes, fonts and files of figures: alike on every machine, and the same bytes each time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure

from ntk_conditioning.files import atomic

#: Widths in inches of a figure in one column and across the page.
SINGLE_COLUMN, DOUBLE_COLUMN = 3.4, 7.0
PAGE = 9.0  # greatest height, which leaves room for the caption
RULE_COLOR = "#8a8a8a"  # grey of reference lines
NOTE: dict[str, Any] = {"fontsize": 6.5, "color": "#555555"}  # words inside the axes


def use_style() -> None:
    """Make all figures that follow look alike, whatever matplotlib's own settings are."""
    mpl.rcdefaults()
    # The fonts that come with matplotlib: the same figure on every machine.
    mpl.rc("font", family="DejaVu Sans", size=8)
    mpl.rc("mathtext", fontset="dejavusans")
    mpl.rc("axes", titlesize=8.5, labelsize=8, titlelocation="left")
    mpl.rc("axes", linewidth=0.6, edgecolor="#333333")
    mpl.rc("axes.spines", top=False, right=False)
    mpl.rc("legend", fontsize=7.2, frameon=False, handlelength=2.2, columnspacing=1.4)
    marks: dict[str, Any] = {"major.width": 0.6, "major.size": 3}
    marks |= {"minor.width": 0.4, "minor.size": 1.6}
    for ticks in ("xtick", "ytick"):
        mpl.rc(ticks, labelsize=7.2, **marks)  # indices, at 70% of it, are above 5 pt
    mpl.rc("lines", linewidth=1.4, solid_capstyle="round")
    mpl.rc("lines", markersize=3.6, markeredgewidth=0.4)  # a thick edge would round all shapes
    mpl.rc("figure", dpi=200)
    mpl.rc("figure.constrained_layout", use=True)
    mpl.rc("pdf", fonttype=42)  # TrueType: text stays text, and journals take it
    mpl.rc("ps", fonttype=42)
    mpl.rc("svg", fonttype="none", hashsalt="ntk-conditioning")  # else every SVG has other ids


@dataclass(frozen=True)
class SavedFigure:
    """The files of a figure; a notebook shows the PNG, which need not be drawn once more."""

    pdf: str
    png: str

    def _repr_png_(self) -> bytes:
        return Path(self.png).read_bytes()


def save_figure(figure: Figure, *, pdf: str | Path, png: str | Path) -> SavedFigure:
    """Write a figure as PDF and as PNG (200 dpi), each whole or not at all, and close it.

    The same figure gives the same bytes: no dates or versions are written.
    """
    # by the canvases themselves: `savefig` draws twice
    with atomic(Path(png)) as temporary:
        agg: Any = FigureCanvasAgg(figure)
        agg.print_png(temporary, metadata={"Software": None})
    figure.set_layout_engine("none")  # what has been laid out is not laid out once more
    with atomic(Path(pdf)) as temporary:
        vector: Any = FigureCanvasPdf(figure)
        vector.print_pdf(temporary, metadata={"CreationDate": None})
    plt.close(figure)
    return SavedFigure(str(pdf), str(png))
