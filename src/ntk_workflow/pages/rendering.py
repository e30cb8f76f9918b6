"""Render the templates: HTML pages that load nothing, with all values escaped, and Markdown."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from latex2mathml.converter import convert
from markupsafe import Markup

from ntk_conditioning.errors import one_line


def render(template: str, **values: Any) -> str:
    """Return a template of this folder with its values; in HTML they are escaped."""
    return _TEMPLATES.get_template(template).render(values)


def table_page(table: pa.Table, *, title: str, note: str = "") -> str:
    """Return an HTML page with all rows of a table; a column's description appears at its name.

    Numbers have four significant digits: the page is to be read, the table to be computed with.
    """
    columns = []
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        meaning = (field.metadata or {}).get(b"description", b"").decode()
        kind = "number" if number else "text"
        columns.append({"name": field.name, "meaning": meaning, "kind": kind})
    rows = [row.values() for row in table.to_pylist()]
    return render("table.html.j2", title=title, note=note, columns=columns, rows=rows)


def shown(value: Any) -> str:
    """Return a value of a table as one reads it.

    >>> [shown(value) for value in (12345678, 0.000123456, 2.0, None, True, float("inf"), "relu")]
    ['12345678', '0.0001235', '2', '–', 'yes', '∞', 'relu']
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else str(value).replace("inf", "∞")
    return str(value)


@cache
def mathml(latex: str) -> Markup:
    """Return a formula in LaTeX as MathML, which browsers set without any program.

    The converter lets unknown commands and missing braces pass; they are refused here.

    Raises:
        ValueError: one line, if there is something in it that cannot be converted.

    >>> mathml("x^{1/2")
    Traceback (most recent call last):
    ValueError: 'x^{1/2' is no formula: braces do not match
    """
    plain = re.sub(r"\\[{}]", "", latex)
    try:
        if plain.count("{") != plain.count("}"):
            raise ValueError("braces do not match")
        formula: str = convert(latex.strip(), display="block")
    except Exception as error:  # the converter's exceptions have no class in common
        reason = one_line(error) or type(error).__name__
        raise ValueError(f"{latex.strip()!r} is no formula: {reason}") from None
    if unknown := re.search(r"\\[A-Za-z]+", formula):
        raise ValueError(f"{latex.strip()!r}: {unknown[0]} is not known")
    return Markup(formula)


def in_script(content: Any) -> Markup:
    """Return JSON that may stand in a script of a page: no text in it can end the script.

    >>> in_script({"a": "</script>"})
    Markup('{"a":"\\\\u003c/script>"}')
    """
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", r"\u003c").replace("\u2028", r"\u2028"))


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown whose columns stand below each other in a terminal, too."""
    cells = [tuple(row) for row in rows]
    widths = [max(3, *map(len, column)) for column in zip(head, *cells, strict=True)]
    lines = [head, ["-" * width for width in widths], *cells]
    padded = (map(str.ljust, line, widths) for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=select_autoescape(["html.j2"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters |= {
    "shown": shown,
    "mathml": mathml,
    "in_script": in_script,
    "in_cell": lambda text: str(text).replace("|", "\\|"),
    "in_rst": lambda text: re.sub(r"([\\*`_|])", r"\\\1", " ".join(str(text).split())),
}
_TEMPLATES.globals["markdown_table"] = markdown_table
