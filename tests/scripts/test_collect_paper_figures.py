"""Figures for a paper: copied, captioned, and refused where a printer would."""

from __future__ import annotations

from pathlib import Path

import collect_paper_figures
import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from ntk_conditioning import plotting

WIDTHS = {"one_fig1": plotting.SINGLE_COLUMN, "one_fig2": plotting.DOUBLE_COLUMN}


@pytest.fixture(autouse=True)
def style():
    with mpl.rc_context():
        plotting.use_style()
        yield


def draw(path: Path, *, width: float, height: float = 2.0, size: float = 8.0, x: float = 0.5):
    figure = Figure(figsize=(width, height), layout="none")
    figure.text(x, 0.5, "condition number", fontsize=size)
    plotting.save_figure(figure, pdf=path, png=path.with_suffix(".png"))


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A folder with two figures and their captions."""
    for name, width in WIDTHS.items():
        draw(tmp_path / f"{name}.pdf", width=width)
        caption = rf"**Title of {name[-1]}.** 100 % of :math:`\kappa`."
        (tmp_path / f"{name}.rst").write_text(caption, encoding="utf-8")
    return tmp_path


def collect(given: Path, captions: tuple[str, ...] = tuple(WIDTHS)) -> int:
    return collect_paper_figures.main(
        [
            *("--figures", *(f"{name}={given}/{name}.pdf" for name in WIDTHS)),
            *("--captions", *(f"{name}={given}/{name}.rst" for name in captions)),
            *("--folder", str(given / "paper")),
        ]
    )


def test_figures_are_collected_with_their_captions(given):
    assert collect(given) == 0
    paper = given / "paper"
    assert {path.name for path in paper.iterdir()} == {
        "captions.md",
        "captions.tex",
        *(f"{name}.pdf" for name in WIDTHS),
    }
    for name in WIDTHS:
        assert (paper / f"{name}.pdf").read_bytes() == (given / f"{name}.pdf").read_bytes()
    latex = (paper / "captions.tex").read_text(encoding="utf-8")
    first, second = latex.split("\n\n")[1:]
    assert first.startswith("\\begin{figure}\n")
    assert second.startswith("\\begin{figure*}\n")  # across both columns
    assert "\\caption{\\textbf{Title of 1.} 100 \\% of $\\kappa$.}" in first
    assert "\\label{fig:one_fig2}" in second
    assert "\n## one_fig1\n" in (text := (paper / "captions.md").read_text(encoding="utf-8"))
    assert "**Title of 2.** 100 % of $\\kappa$.\n" in text
    made = {path: path.read_bytes() for path in paper.iterdir()}
    assert collect(given) == 0
    assert made == {path: path.read_bytes() for path in paper.iterdir()}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"width": 5.8}, "it is 5.80 inches wide, not 3.4 or 7"),
        ({"width": 7.0, "height": 9.5}, "it is 9.50 inches tall, more than 9"),
        ({"width": 3.4, "size": 4.9}, "it has letters of 4.9 pt, less than 5"),
        ({"width": 3.4, "x": -0.01}, "1 texts begin beyond its edge"),
    ],
    ids=["width", "height", "letters", "edge"],
)
def test_a_figure_that_is_not_as_papers_want_it_is_refused(changes, what, given, capsys):
    draw(given / "one_fig2.pdf", **changes)
    assert collect(given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"collect_paper_figures: error: {given}/one_fig2.pdf: {what}")
    assert not (given / "paper").exists()


def test_fonts_that_printers_refuse_are_named(given, capsys):
    mpl.rcParams["pdf.fonttype"] = 3
    draw(given / "one_fig1.pdf", width=3.4)
    assert collect(given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "not embedded as TrueType: " in line
    assert "DejaVuSans" in line


def test_a_figure_without_a_caption_is_named(given, capsys):
    assert collect(given, captions=("one_fig1",)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("collect_paper_figures: error: not both a PDF and a caption: one_fig2")
