"""Render the templates: HTML pages that load nothing, with all values escaped, and Markdown."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape


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
_TEMPLATES.filters |= {"shown": shown, "in_cell": lambda text: str(text).replace("|", "\\|")}
_TEMPLATES.globals["markdown_table"] = markdown_table
