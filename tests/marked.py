"""Parts of documents that programs write, between marks."""

from pathlib import Path


def with_part(path: Path, start: str, end: str, text: str) -> str:
    """Return a document with another text between the lines ``start`` and ``end``."""
    head, found, rest = path.read_text(encoding="utf-8").partition(start)
    _, ended, tail = rest.partition(end)
    assert found, f"{path.name} lacks {start}"
    assert ended, f"{path.name} lacks {end}"
    return f"{head}{start}\n{text}\n{end}{tail}"
