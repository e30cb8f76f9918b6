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
    arguments = ["--figures", *(f"{name}={given}/{name}.pdf" for name in WIDTHS)]
    arguments += ["--captions", *(f"{name}={given}/{name}.rst" for name in captions)]
    return collect_paper_figures.main([*arguments, "--folder", str(given / "paper")])


def refusal(given: Path, capsys, **options) -> str:
    """Return the one line with which the figures are refused."""
    assert collect(given, **options) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert not (given / "paper").exists()
    return line.removeprefix("collect_paper_figures: error: ")


def test_figures_are_collected_with_their_captions(given):
    assert collect(given) == 0
    made = {path.name: path.read_bytes() for path in (given / "paper").iterdir()}
    pdfs = {f"{name}.pdf": (given / f"{name}.pdf").read_bytes() for name in WIDTHS}
    latex, markdown = (made[f"captions.{kind}"].decode() for kind in ("tex", "md"))
    assert made == {"captions.tex": latex.encode(), "captions.md": markdown.encode()} | pdfs
    first, second = latex.split("\n\n")[1:]
    assert first.splitlines()[0] == "\\begin{figure}"
    assert second.splitlines()[0] == "\\begin{figure*}"  # across both columns
    assert [line.strip() for line in first.splitlines()[2:]] == [
        "\\includegraphics{one_fig1.pdf}",
        "\\caption{\\textbf{Title of 1.} 100 \\% of $\\kappa$.}",
        "\\label{fig:one_fig1}",
        "\\end{figure}",
    ]
    assert "\n## one_fig1\n" in markdown
    assert "**Title of 2.** 100 % of $\\kappa$.\n" in markdown
    assert collect(given) == 0
    assert made == {path.name: path.read_bytes() for path in (given / "paper").iterdir()}


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
    assert refusal(given, capsys).startswith(f"{given}/one_fig2.pdf: {what}")


def test_fonts_that_printers_refuse_and_a_missing_caption_are_named(given, capsys):
    line = refusal(given, capsys, captions=("one_fig1",))
    assert line.startswith("not both a PDF and a caption: one_fig2")
    mpl.rcParams["pdf.fonttype"] = 3
    draw(given / "one_fig1.pdf", width=3.4)
    line = refusal(given, capsys)
    assert "not embedded as TrueType: " in line
    assert "DejaVuSans" in line
