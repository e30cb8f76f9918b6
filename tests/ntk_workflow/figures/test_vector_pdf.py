"""What a printer asks is read from PDFs as matplotlib writes them."""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from pypdf import PdfWriter

from ntk_conditioning import plotting
from ntk_workflow.figures import vector_pdf
from ntk_workflow.figures.vector_pdf import PdfError, VectorPdf


def drawn(path: Path, figure: Figure) -> VectorPdf:
    figure.savefig(path)
    return vector_pdf.inspect(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "figure.pdf"


@pytest.fixture
def figure():
    with mpl.rc_context():
        plotting.use_style()
        yield Figure(figsize=(3, 2), layout="none")


def test_size_and_letters(path: Path, figure: Figure) -> None:
    figure.text(0.1, 0.5, r"10$^{2}$", fontsize=9)
    figure.text(0.5, 0.2, "turned", fontsize=8, rotation=30)
    found = drawn(path, figure)
    assert (found.width, found.height) == pytest.approx((3, 2))
    assert found.letters == pytest.approx(0.7 * 9, rel=1e-3)  # an index
    assert (found.outside, found.images) == (0, 0)
    assert list(found.fonts.values()) == [True]


@pytest.mark.parametrize("rotation", [0, 30, 90])
def test_letters_have_their_size_however_they_are_turned(
    rotation: int, path: Path, figure: Figure
) -> None:
    figure.text(0.3, 0.3, "θ turned", fontsize=6.5, rotation=rotation)
    assert drawn(path, figure).letters == pytest.approx(6.5, rel=1e-3)


@pytest.mark.parametrize(
    ("x", "y", "outside"), [(0.1, 0.1, 0), (-0.1, 0.1, 1), (1.1, 0.1, 1), (0.1, 1.2, 1)]
)
def test_text_beyond_the_page_is_seen(
    x: float, y: float, outside: int, path: Path, figure: Figure
) -> None:
    figure.text(x, y, "words")
    assert drawn(path, figure).outside == outside


@pytest.mark.parametrize(
    ("text", "kind", "fine"),
    [
        ("plain", 42, True),
        ("κ beyond 255", 42, True),
        (r"$\kappa$", 42, True),
        ("plain", 3, False),
    ],
)
def test_fonts_that_are_not_truetype_are_seen(
    text: str, kind: int, fine: bool, path: Path, figure: Figure
) -> None:
    mpl.rcParams["pdf.fonttype"] = kind
    figure.text(0.1, 0.5, text)
    assert set(drawn(path, figure).fonts.values()) == {fine}


def test_fonts_that_are_not_embedded_are_seen(path: Path, figure: Figure) -> None:
    mpl.rcParams["pdf.use14corefonts"] = True
    mpl.rcParams["font.family"] = "Helvetica"
    figure.text(0.1, 0.5, "words")
    assert not any(drawn(path, figure).fonts.values())


def test_pixels_are_seen(path: Path, figure: Figure) -> None:
    figure.subplots().imshow(np.eye(3))
    assert drawn(path, figure).images == 1


def test_a_page_without_text(path: Path, figure: Figure) -> None:
    found = drawn(path, figure)
    assert (found.letters, found.fonts, found.outside) == (math.inf, {}, 0)


def test_other_files_are_told_in_one_line(path: Path) -> None:
    path.write_bytes(b"no PDF")
    with pytest.raises(PdfError, match=r"figure\.pdf: not a readable PDF"):
        vector_pdf.inspect(path)
    writer = PdfWriter()
    for _ in range(2):
        writer.add_blank_page(100, 100)
    writer.write(path)
    with pytest.raises(PdfError, match="2 pages; a figure is one"):
        vector_pdf.inspect(path)
