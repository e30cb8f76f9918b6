"""Sizes, fonts and files of figures: alike on every machine, and the same bytes each time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure

from ntk_conditioning.files import atomic

#: Widths in inches of a figure in one column and across the page.
SINGLE_COLUMN, DOUBLE_COLUMN = 3.4, 7.0
PAGE = 9.0  # greatest height, which leaves room for the caption
TICKS = {
    "labelsize": 7.2,
    "major.width": 0.6,
    "major.size": 3,
    "minor.width": 0.4,
    "minor.size": 1.6,
}
RULE_COLOR = "#8a8a8a"  # grey of reference lines
NOTE: dict[str, Any] = {"fontsize": 6.5, "color": "#555555"}  # words inside the axes
#: What seaborn's theme "ticks" leaves open, in points.
RC: dict[str, Any] = {
    "font.size": 8,
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "axes.titlelocation": "left",
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#333333",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 7.2,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.columnspacing": 1.4,
    **{f"{axis}tick.{key}": size for axis in "xy" for key, size in TICKS.items()},
    "lines.linewidth": 1.4,
    "lines.solid_capstyle": "round",
    "lines.markersize": 3.6,
    "lines.markeredgewidth": 0.4,  # a thick edge rounds all shapes
    "figure.dpi": 200,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,  # TrueType: text stays text, and journals take it
    "svg.fonttype": "none",
    "svg.hashsalt": "ntk-conditioning",  # else ids differ each time
}


def use_theme() -> None:
    """Make all figures that follow look alike, whatever matplotlib's own settings are."""
    mpl.rcdefaults()
    sns.set_theme("paper", "ticks", font="DejaVu Sans", rc=RC)  # a font that matplotlib brings


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
