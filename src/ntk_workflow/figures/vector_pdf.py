"""What a printer asks of a figure's PDF: its size, its fonts, its letters, no pixels."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypdf import PageObject, PdfReader, Transformation
from pypdf.errors import PyPdfError

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import require_file


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
    """Return what a PDF of one page consists of; `PdfError` if it is none, or has several pages."""
    require_file(path)
    try:
        pages = PdfReader(path, strict=True).pages
        if len(pages) != 1:
            raise PdfError(f"{path}: {len(pages)} pages; a figure is one")
        page = pages[0]
        width, height = float(page.mediabox.width), float(page.mediabox.height)
        fonts, texts = _resources(page, "/Font"), _texts(page)
        pictures = [form["/Subtype"] == "/Image" for form in _resources(page, "/XObject").values()]
        return VectorPdf(
            width=width / 72,
            height=height / 72,
            fonts={
                str(font.get("/BaseFont", name)).removeprefix("/"): _is_embedded_truetype(font)
                for name, font in fonts.items()
            },
            letters=min((size for size, _, _ in texts), default=math.inf),
            outside=sum(not (0 <= x <= width and 0 <= y <= height) for _, x, y in texts),
            images=sum(pictures),
        )
    except (PyPdfError, KeyError) as error:
        raise PdfError(f"{path}: not a readable PDF: {one_line(error)}") from None


def _resources(page: PageObject, kind: str) -> dict[str, Any]:
    resources: Any = page["/Resources"].get_object()
    items = resources[kind].get_object() if kind in resources else {}
    return {name: item.get_object() for name, item in items.items()}


def _is_embedded_truetype(font: Any) -> bool:
    if font["/Subtype"] == "/Type0":  # of characters beyond 255 the descendant has the outlines
        font = font["/DescendantFonts"].get_object()[0].get_object()
    if font["/Subtype"] not in ("/TrueType", "/CIDFontType2"):
        return False
    return "/FontFile2" in font["/FontDescriptor"].get_object()


def _texts(page: PageObject) -> list[tuple[float, float, float]]:
    """Return the size of every piece of text and where it begins, in points of the page."""
    texts = []
    sizes = [0.0]  # the last one holds, the others are saved

    def visit(operator: bytes, operands: Any, page_matrix: Any, line: Any) -> None:
        match operator:
            case b"q":
                sizes.append(sizes[-1])
            case b"Q":
                sizes.pop()
            case b"Tf":
                sizes[-1] = float(operands[1])
            case b"Tj" | b"TJ":
                placed = Transformation(line).transform(Transformation(page_matrix))
                a, b, c, d, x, y = placed.ctm
                texts.append((sizes[-1] * math.sqrt(abs(a * d - b * c)), x, y))

    page.extract_text(visitor_operand_before=visit)
    return texts
