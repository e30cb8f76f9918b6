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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "figure.pdf"


@pytest.fixture
def figure():
    with mpl.rc_context():
        plotting.use_style()
        yield Figure(figsize=(3, 2), layout="none")


def drawn(path: Path, figure: Figure) -> VectorPdf:
    figure.savefig(path)
    return vector_pdf.inspect(path)


@pytest.mark.parametrize("rotation", [0, 30, 90])
def test_letters_have_their_size_however_they_are_turned(rotation: int, path, figure) -> None:
    figure.text(0.3, 0.3, "θ turned", fontsize=6.5, rotation=rotation)
    assert drawn(path, figure).letters == pytest.approx(6.5, rel=1e-3)


def test_size_letters_and_text_beyond_the_page(path, figure) -> None:
    page = drawn(path, figure)
    assert (page.width, page.height) == pytest.approx((3, 2))
    assert page == VectorPdf(page.width, page.height, {}, math.inf, outside=0, images=0)
    figure.text(0.1, 0.5, r"10$^{2}$", fontsize=9)
    page = drawn(path, figure)
    assert page.letters == pytest.approx(0.7 * 9, rel=1e-3)  # an index
    assert page.outside == 0
    for outside, (x, y) in enumerate([(-0.1, 0.1), (1.1, 0.1), (0.1, 1.2)], start=1):
        figure.text(x, y, "words")
        assert drawn(path, figure).outside == outside


@pytest.mark.parametrize(
    ("text", "settings", "fine"),
    [
        ("plain", {}, True),
        ("κ beyond 255", {}, True),
        (r"$\kappa$", {}, True),
        ("plain", {"pdf.fonttype": 3}, False),
        ("plain", {"pdf.use14corefonts": True, "font.family": "Helvetica"}, False),
    ],
)
def test_fonts_that_are_not_embedded_as_truetype_are_seen(text, settings, fine, path, figure):
    mpl.rcParams.update(settings)
    figure.text(0.1, 0.5, text)
    assert set(drawn(path, figure).fonts.values()) == {fine}


def test_pixels_are_seen(path, figure) -> None:
    figure.subplots().imshow(np.eye(3))
    assert drawn(path, figure).images == 1


def test_other_files_are_refused_in_one_line(path: Path) -> None:
    path.write_bytes(b"no PDF")
    with pytest.raises(PdfError, match=r"figure\.pdf: not a readable PDF"):
        vector_pdf.inspect(path)
    writer = PdfWriter()
    for _ in range(2):
        writer.add_blank_page(100, 100)
    writer.write(path)
    with pytest.raises(PdfError, match="2 pages; a figure is one"):
        vector_pdf.inspect(path)
