"""Parts of documents that programs write, between marks, and tables in them."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path


def with_part(path: Path, name: str, part: str) -> str:
    """Return a document with another part between the lines of its marks."""
    marks = rf"(<!-- {name}: written by [^\n]* -->\n).*?(<!-- end of {name} -->\n)"
    text, found = re.compile(marks, re.DOTALL), path.read_text(encoding="utf-8")
    whole, count = text.subn(lambda mark: f"{mark[1]}\n{part}\n{mark[2]}", found)
    assert count == 1, f"{path.name} has {count} parts {name}"
    return whole


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown whose columns stand below each other in a terminal, too."""
    cells = [tuple(row) for row in rows]
    widths = [max(3, *map(len, column)) for column in zip(head, *cells, strict=True)]
    lines = [head, ["-" * width for width in widths], *cells]
    padded = (map(str.ljust, line, widths) for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)
