"""What a printer asks of a figure's PDF: its size, its fonts, its letters, no pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pypdf import PageObject, PdfReader
from pypdf.errors import PyPdfError
from pypdf.generic import ContentStream

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import require_file

_INCH = 72.0


class PdfError(UserError):
    """A file is not the PDF of a figure."""


@dataclass(frozen=True)
class VectorPdf:
    """A page of ``width`` × ``height`` inches.

    ``fonts`` says of every font whether it is TrueType (Type 42) and embedded; ``letters`` is the
    smallest size of text in points, infinite where there is none; ``outside`` counts texts that
    begin beyond the page's edge, and ``images`` pictures made of pixels.
    """

    width: float
    height: float
    fonts: dict[str, bool]
    letters: float
    outside: int
    images: int


def inspect(path: Path) -> VectorPdf:
    """Return what a PDF of one page consists of.

    Raises:
        PdfError: if it is no PDF, or has several pages.
    """
    require_file(path)
    try:
        pages = PdfReader(path, strict=True).pages
        if len(pages) != 1:
            raise PdfError(f"{path}: {len(pages)} pages; a figure is one")
        page = pages[0]
        box = page.mediabox
        texts = list(_texts(page))
        return VectorPdf(
            width=float(box.width) / _INCH,
            height=float(box.height) / _INCH,
            fonts={
                str(font.get("/BaseFont", name)).removeprefix("/"): _is_embedded_truetype(font)
                for name, font in _resources(page, "/Font")
            },
            letters=min((size for size, _, _ in texts), default=math.inf),
            outside=sum(
                not (0 <= x <= float(box.width) and 0 <= y <= float(box.height))
                for _, x, y in texts
            ),
            images=sum(form["/Subtype"] == "/Image" for _, form in _resources(page, "/XObject")),
        )
    except (PyPdfError, KeyError) as error:
        raise PdfError(f"{path}: not a readable PDF: {one_line(error)}") from None


def _resources(page: PageObject, kind: str) -> list[tuple[str, Any]]:
    resources: Any = page["/Resources"].get_object()
    found = resources[kind].get_object() if kind in resources else {}
    return [(name, item.get_object()) for name, item in found.items()]


def _is_embedded_truetype(font: Any) -> bool:
    if font["/Subtype"] == "/Type0":  # of characters beyond 255 the descendant has the outlines
        font = font["/DescendantFonts"].get_object()[0].get_object()
    if font["/Subtype"] not in ("/TrueType", "/CIDFontType2"):
        return False
    return "/FontFile2" in font["/FontDescriptor"].get_object()


def _texts(page: PageObject) -> Iterator[tuple[float, float, float]]:
    """Yield the size of every piece of text and where it begins, in points of the page.

    Text that follows another in its line, at a place that only the font knows, begins there too.
    """
    size, page_matrix, line = 0.0, np.eye(3), np.eye(3)
    saved: list[tuple[float, Any]] = []
    for operands, operator in ContentStream(page.get_contents(), page.pdf).operations:
        match operator:
            case b"q":
                saved.append((size, page_matrix))
            case b"Q":
                size, page_matrix = saved.pop()
            case b"cm":
                page_matrix = _matrix(*operands) @ page_matrix
            case b"BT":
                line = np.eye(3)
            case b"Tm":
                line = _matrix(*operands)
            case b"Td":
                line = _matrix(1, 0, 0, 1, *operands) @ line
            case b"Tf":
                size = float(operands[1])
            case b"Tj" | b"TJ":
                matrix = line @ page_matrix
                scale = math.sqrt(abs(np.linalg.det(matrix[:2, :2])))
                yield size * scale, float(matrix[2, 0]), float(matrix[2, 1])


def _matrix(*numbers: float) -> NDArray[np.float64]:
    """Return a transformation as PDF writes it, for rows (x, y, 1)."""
    a, b, c, d, e, f = (float(number) for number in numbers)
    return np.array([[a, b, 0.0], [c, d, 0.0], [e, f, 1.0]])
