"""What figures and notebooks of a bundle hold: pictures that can be read, the source's own cells,
nothing that acts when it is opened.
"""

import ast
import json
import logging
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from PIL import Image
from pypdf import PdfReader
from pypdf.errors import PyPdfError

from ntk_conditioning.errors import one_line
from ntk_workflow.bundle import BundleError
from ntk_workflow.named_values import from_words
from ntk_workflow.plan import Plan

INJECTED = "injected-parameters"
#: What `scripts/run_notebook.py` writes of a notebook, and of its cell of parameters.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
PARAMETERS = {"cell_type": "code", "id": INJECTED, "metadata": {"tags": [INJECTED]}, "source": ""}
#: What an output of a notebook may be, and the elements of those in HTML: pandas' tables.
_KINDS = {"text/plain", "text/html", "text/markdown", "image/png"}
_ELEMENTS = {"div", "p", "style", "table", "thead", "tbody", "tr", "th", "td"}
_ATTRIBUTES = {"border", "class", "colspan", "halign", "rowspan", "scoped", "style", "valign"}
#: Names in a PDF that act, fetch or hide; Matplotlib writes none of them.
_ACTIVE = re.compile(
    rb"/(JavaScript|JS|OpenAction|AA|Launch|EmbeddedFile|URI|ObjStm|AcroForm|RichMedia|XFA|SubmitForm"
    rb"|GoToR|GoToE|Named|ImportData|Rendition|Movie|Sound)\b"
)
logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it cannot read is one line here
_ESCAPE = re.compile(rb"#([0-9a-fA-F]{2})")


def require_figures(payload: Path, plan: Plan) -> int:
    """Return how many figures there are: well-formed, passive, with the notebooks that drew them.

    Raises:
        BundleError: if a picture or a PDF cannot be read or has something active in it, or a
            notebook has other cells than its source, other parameters than the config gives, or an
            active output.
    """
    for figure in plan.drawn_figures:
        pdf, png = (payload / name for name in plan.figure_files(figure))
        notebook = plan.path(f"notebooks/{figure}.ipynb")
        problem = _png_problem(png) or _pdf_problem(pdf)
        if problem:
            raise BundleError(f"{plan.path('figures', figure)}{problem}")
        for line in _notebook_problems(payload, notebook, figure, plan):
            raise BundleError(f"{notebook}: {line}")
    return len(plan.drawn_figures)


def _png_problem(path: Path) -> str | None:
    try:
        with Image.open(path, formats=["PNG"]) as picture:
            picture.verify()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return f".png: no picture that can be read ({one_line(error)})"
    return None


def _pdf_problem(path: Path) -> str | None:
    content = path.read_bytes()
    if active := _ACTIVE.search(_ESCAPE.sub(lambda m: bytes([int(m[1], 16)]), content)):
        return f".pdf: has /{active[1].decode()} in it, which no figure needs"
    try:
        pages = len(PdfReader(path, strict=True).pages)
    except (
        PyPdfError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        return f".pdf: no PDF that can be read ({one_line(error)})"
    return None if pages == 1 else f".pdf: {pages} pages, and a figure is one"


def _notebook_problems(payload: Path, name: str, figure: str, plan: Plan) -> Iterator[str]:
    """Yield what distinguishes an executed notebook from its source, or acts in it."""
    source = f"workflow/notebooks/{figure}.ipynb"
    try:
        notebook, written = (
            json.loads((payload / each).read_text(encoding="utf-8")) for each in (name, source)
        )
        executed = notebook["cells"]
        cells = [cell for cell in executed if INJECTED not in cell["metadata"].get("tags", ())]
        (injected,) = (cell for cell in executed if cell not in cells)
        found, expected = ([*map(_unexecuted, each)] for each in (cells, written["cells"]))
        numbers = [cell["execution_count"] for cell in executed if cell["cell_type"] == "code"]
        given = _assigned("".join(injected["source"]))
        outputs = [output for cell in executed for output in cell.get("outputs", ())]
        shown = [item for output in outputs for item in _shown(output)]
    except (
        *(ValueError, LookupError, TypeError, AttributeError, SyntaxError, OSError),
        *(RecursionError, MemoryError),
    ) as error:
        yield f"no executed notebook ({one_line(error) or type(error).__name__})"
        return
    if found != expected:
        pairs = enumerate(zip(found, expected, strict=False), start=1)
        number = next(
            (n for n, pair in pairs if pair[0] != pair[1]), min(map(len, (found, expected)))
        )
        yield f"its cell {number} is not the one of {source}"
    if {**notebook, "cells": ()} != {**written, "cells": (), "metadata": METADATA}:
        yield f"its metadata or version are not those of an executed {source}"
    if {**_unexecuted(injected), "source": ""} != PARAMETERS:
        yield "its cell of parameters is not the one that a run writes"
    if numbers != [*range(1, len(numbers) + 1)]:
        yield f"its cells were run in the order {numbers}"
    wanted = from_words(plan.figure_parameters(SimpleNamespace(figure=figure)))
    given = _without_root(given, wanted["pdf"])
    for key in sorted(wanted.keys() | given.keys()):
        if given.get(key) != wanted.get(key):
            yield f"parameter {key} is {given.get(key)!r}, and the config gives {wanted.get(key)!r}"
    for kind, text in shown:
        if kind not in _KINDS or (kind == "text/html" and _is_active(text)):
            yield f"an output of type {kind} may act when it is shown"


def _unexecuted(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell without what running it gives."""
    kept = {key: cell[key] for key in cell.keys() - {"outputs", "execution_count"}}
    return {**kept, "source": "".join(cell["source"])}


def _without_root(given: Mapping[str, Any], pdf: str) -> dict[str, Any]:
    """Return parameters without what the files of another workflow's module begin with."""
    root = str(given.get("pdf", ""))
    root = root.removesuffix(pdf) if root.endswith(pdf) else ""

    def without(value: Any) -> Any:
        if isinstance(value, list):
            return [without(each) for each in value]
        return value.removeprefix(root) if isinstance(value, str) else value

    return {key: without(value) for key, value in given.items()}


def _assigned(source: str) -> dict[str, Any]:
    """Return the values of papermill's cell, of plain assignments."""
    values = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            raise ValueError("its parameters are no assignments")
        values[node.targets[0].id] = ast.literal_eval(node.value)
    return values


def _shown(output: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if output["output_type"] not in ("stream", "display_data") or output.get("metadata"):
        raise ValueError("an output that no run writes")
    if output["output_type"] == "stream":
        if output["name"] not in ("stdout", "stderr"):
            raise ValueError("an output to another stream")
    else:
        yield from ((kind, "".join(text)) for kind, text in output["data"].items())


def _is_active(text: str) -> bool:
    """Return whether HTML has more in it than a table of texts."""
    active: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag not in _ELEMENTS or not _ATTRIBUTES.issuperset(name for name, _ in attrs):
                active.append(tag)

    Reader().feed(text)
    return bool(active) or "url(" in text or "@import" in text
