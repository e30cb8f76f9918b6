"""Figures look alike on every machine, and their files have the same bytes each time."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from ntk_conditioning import plotting


def test_the_style_overrides_the_users() -> None:
    expected = dict(mpl.rcParams)
    mpl.rcParams.update({"font.family": "serif", "lines.linewidth": 9, "pdf.fonttype": 3})
    plotting.use_style()
    assert dict(mpl.rcParams) == expected


def saved(folder: Path) -> tuple[bytes, bytes]:
    figure = Figure(figsize=(2, 2))
    ax = figure.subplots()
    ax.plot([1, 2], [3, 4])
    ax.set_title(r"condition number $\kappa$")
    pdf, png = folder / "figure.pdf", folder / "figure.png"
    plotting.save_figure(figure, pdf=str(pdf), png=png)
    assert sorted(path.name for path in folder.iterdir()) == ["figure.pdf", "figure.png"]
    return pdf.read_bytes(), png.read_bytes()


def test_saved_figures_are_reproducible_and_keep_their_fonts(tmp_path: Path) -> None:
    pdf, png = saved(tmp_path / "one")
    assert (pdf, png) == saved(tmp_path / "two")
    assert b"CreationDate" not in pdf
    assert not re.search(rb"/Subtype\s*/Type3", pdf)
    assert b"FontFile2" in pdf  # TrueType is embedded: Type 42
    width, height = (int.from_bytes(png[k : k + 4]) for k in (16, 20))
    assert (width, height) == (400, 400)  # 2 inches at 200 dpi


def test_a_figure_that_cannot_be_drawn_leaves_no_file(tmp_path: Path) -> None:
    figure = Figure()
    figure.text(0.5, 0.5, r"$\nonsense$")
    with pytest.raises(ValueError, match="nonsense"):
        plotting.save_figure(figure, pdf=tmp_path / "a.pdf", png=tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
