"""Sizes, fonts and files of figures: alike on every machine, and the same bytes each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from ntk_conditioning.files import atomic

SINGLE_COLUMN = 3.4
"""Width in inches of a figure in one column."""
DOUBLE_COLUMN = 7.0
"""Width in inches of a figure across the page."""
PAGE = 9.0
"""Greatest height in inches of a figure, which leaves room for its caption."""

RULE_COLOR = "#8a8a8a"
"""Grey of reference lines."""
NOTE: dict[str, Any] = {"fontsize": 6.5, "color": "#555555"}
"""How words inside the axes look."""


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
            "xtick.labelsize": 7.2,  # indices, at 70% of it, are above 5 pt
            "ytick.labelsize": 7.2,
            "legend.fontsize": 7.2,
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


def save_figure(figure: Figure, *, pdf: str | Path, png: str | Path) -> None:
    """Write a figure as PDF and as PNG (200 dpi), each whole or not at all.

    The same figure gives the same bytes: no dates or versions are written.
    """
    with atomic(Path(pdf)) as temporary:
        figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})
    with atomic(Path(png)) as temporary:
        figure.savefig(temporary, format="png", dpi=200, metadata={"Software": None})
