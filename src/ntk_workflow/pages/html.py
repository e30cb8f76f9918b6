"""Plain HTML pages of one file each, which load nothing: tables, and texts as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from jinja2 import Environment

_PAGE = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
    """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{{ title }}</title>
<style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #222; }
h1 { font-size: 1.3em; } h2 { font-size: 1.1em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2em .7em; text-align: right; white-space: nowrap; }
td { border-bottom: 1px solid #ddd; }
th { position: sticky; top: 0; background: #fff; border-bottom: 2px solid #888; cursor: help; }
.text { text-align: left; }
tbody tr:hover { background: #f3f3f3; }
pre { font-size: 13px; white-space: pre-wrap; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% if note %}
<p>{{ note }}</p>
{% endif %}
{% for heading, text in texts.items() %}
<h2>{{ heading }}</h2>
<pre>{{ text }}</pre>
{% endfor %}
{% if columns %}
<table>
<thead><tr>
{% for column in columns %}
<th class="{{ column.class }}" title="{{ column.meaning }}">{{ column.name }}</th>
{% endfor %}
</tr></thead>
<tbody>
{% for row in rows %}
<tr>
{% for cell in row %}
<td class="{{ columns[loop.index0].class }}">{{ cell }}</td>
{% endfor %}
</tr>
{% endfor %}
</tbody>
</table>
{% endif %}
</body>
</html>
"""
)


def table_page(table: pa.Table, *, title: str, note: str = "") -> str:
    """Return a page with all rows of a table; a column's description appears at its name.

    Numbers have four significant digits: the page is to be read, the table to be computed with.
    """
    columns = [
        {
            "name": field.name,
            "meaning": (field.metadata or {}).get(b"description", b"").decode(),
            "class": "number" if _is_number(field.type) else "text",
        }
        for field in table.schema
    ]
    rows = [[shown(value) for value in row.values()] for row in table.to_pylist()]
    return _PAGE.render(title=title, note=note, texts={}, columns=columns, rows=rows) + "\n"


def text_page(texts: Mapping[str, str], *, title: str, note: str = "") -> str:
    """Return a page with texts under their headings, set as they are."""
    return _PAGE.render(title=title, note=note, texts=texts, columns=[], rows=[]) + "\n"


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


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
