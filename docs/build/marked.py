"""Parts of documents that programs write, between marks."""

import re
from pathlib import Path


def with_part(path: Path, name: str, part: str) -> str:
    """Return a document with another part between the lines of its marks."""
    marks = rf"(<!-- {name}: written by [^\n]* -->\n).*?(<!-- end of {name} -->\n)"
    text, found = re.compile(marks, re.DOTALL), path.read_text(encoding="utf-8")
    whole, count = text.subn(lambda mark: f"{mark[1]}\n{part}\n{mark[2]}", found)
    assert count == 1, f"{path.name} has {count} parts {name}"
    return whole
