"""Figures for a paper: copied, captioned, and refused where a printer would."""

from pathlib import Path

import collect_paper_figures
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from pypdf import PdfWriter

from ntk_conditioning import plotting

WIDTHS = {"one_fig1": plotting.SINGLE_COLUMN, "one_fig2": plotting.DOUBLE_COLUMN}
CAPTION = r"""
**Angles & more of {}.** The angle :math:`\theta_{{\mathrm{{in}}}}` of 100 % of the *inputs*
(“_” and # are signs); :math:`\kappa^{{-1}}` as well.
"""


@pytest.fixture(autouse=True)
def style():
    with mpl.rc_context():
        plotting.use_style()
        yield


def draw(path: Path, *, width=3.4, height=2.0, **text) -> Figure:
    figure = Figure(figsize=(width, height), layout="none")
    figure.text(**{"x": 0.5, "y": 0.5, "s": "condition number", "fontsize": 8.0} | text)
    figure.savefig(path)
    return figure


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A folder with two figures and their captions."""
    for name, width in WIDTHS.items():
        draw(tmp_path / f"{name}.pdf", width=width)
        (tmp_path / f"{name}.rst").write_text(CAPTION.format(name[-1]), encoding="utf-8")
    return tmp_path


def arguments(given: Path, captions: tuple[str, ...] = tuple(WIDTHS)) -> list[str]:
    figures = ["--figures", *(f"{name}={given}/{name}.pdf" for name in WIDTHS)]
    texts = ["--captions", *(f"{name}={given}/{name}.rst" for name in captions)]
    return [*figures, *texts, f"--folder={given}/paper"]


@pytest.fixture
def refused(given, refusal):
    """Return a function that returns the line with which figures are refused."""
    return lambda **options: refusal(collect_paper_figures, arguments(given, **options))


def test_figures_are_collected_with_their_captions(given):
    assert collect_paper_figures.main(arguments(given)) == 0
    files = {path.name: path.read_bytes() for path in (given / "paper").iterdir()}
    pdfs = {f"{name}.pdf": (given / f"{name}.pdf").read_bytes() for name in WIDTHS}
    latex, markdown = (files[f"captions.{kind}"].decode() for kind in ("tex", "md"))
    assert files == {"captions.tex": latex.encode(), "captions.md": markdown.encode()} | pdfs
    header, first, second = latex.split("\n\n")
    assert header.endswith("for columns of 3.4 and pages of 7 inches.")
    assert first.startswith("\\begin{figure}\n")
    assert second.startswith("\\begin{figure*}\n")  # across both columns
    assert [line.strip() for line in first.splitlines()[2:]] == [
        "\\includegraphics{one_fig1.pdf}",
        r"\caption{\textbf{Angles \& more of 1.} The angle $\theta_{\mathrm{in}}$ of 100 \% of the "
        r"\emph{inputs} (“\_” and \# are signs); $\kappa^{-1}$ as well.}",
        "\\label{fig:one_fig1}",
        "\\end{figure}",
    ]
    assert "\n## one_fig1\n" in markdown
    assert (
        r"**Angles & more of 2.** The angle $\theta_{\mathrm{in}}$ of 100 % of the *inputs* "
        r"(“_” and # are signs); $\kappa^{-1}$ as well."
    ) in markdown.splitlines()
    assert collect_paper_figures.main(arguments(given)) == 0
    assert files == {path.name: path.read_bytes() for path in (given / "paper").iterdir()}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"width": 5.8}, "it is 5.80 inches wide, not 3.4 or 7"),
        ({"height": 9.5}, "it is 9.50 inches tall, more than 9"),
        ({"fontsize": 4.9}, "it has letters of 4.9 pt, less than 5"),
        ({"s": "θ turned", "fontsize": 4.9, "rotation": 30}, "it has letters of 4.9 pt"),
        ({"s": r"10$^{2}$", "fontsize": 7}, "it has letters of 4.9 pt"),  # of the index
        *(({"x": x, "y": y}, "1 texts begin") for x, y in ((-0.1, 0.1), (1.1, 0.1), (0.1, 1.2))),
    ],
)
def test_a_figure_that_is_not_as_papers_want_it_is_refused(changes, problem, given, refused):
    draw(given / "one_fig2.pdf", **changes)
    assert refused().startswith(f"{given}/one_fig2.pdf: {problem}")


FONTS = {"DejaVuSans": {"pdf.fonttype": 3}}
FONTS["Helvetica"] = {"pdf.use14corefonts": True, "font.family": "Helvetica"}


@pytest.mark.parametrize("font", FONTS)
def test_fonts_that_printers_refuse_are_named(font, given, refused):
    mpl.rcParams.update(FONTS[font])
    draw(given / "one_fig1.pdf", s="plain")
    assert "not embedded as TrueType: " in (line := refused())
    assert font in line


def test_pixels_and_what_is_no_figure_or_has_no_caption_are_refused(given, refused):
    path = given / "one_fig1.pdf"
    figure = draw(path, s="κ beyond 255")
    figure.subplots().imshow(np.eye(3))
    figure.savefig(path)
    assert "it has 1 pictures made of pixels" in refused()
    path.write_bytes(b"no PDF")
    assert f"{path}: not a readable PDF" in refused()
    writer = PdfWriter()
    for _ in range(2):
        writer.add_blank_page(100, 100)
    writer.write(path)
    assert f"{path}: 2 pages; a figure is one" in refused()
    line = refused(captions=("one_fig1",))
    assert line.startswith("not both a PDF and a caption: one_fig2")


NO_CAPTIONS = {"": "it has 0", "One.\n\nTwo.": "it has 2", "- a list": "bullet_list"}
NO_CAPTIONS |= {"A `link <https://example.org>`_.": "reference"}
NO_CAPTIONS |= {":unknown:`role`": "not reStructuredText"}


def test_what_is_no_caption_is_refused(given, refused):
    path = given / "one_fig2.rst"
    for text, problem in NO_CAPTIONS.items():
        path.write_text(text, encoding="utf-8")
        assert problem in (line := refused())
        assert line.startswith(str(path))
    path.unlink()
    assert f"{path} does not exist" in refused()
