"""Parts of documents that programs write, between marks."""

from pathlib import Path


def with_part(path: Path, start: str, end: str, part: str, *, text: str | None = None) -> str:
    """Return a document, or its ``text``, with another part between the lines of its marks."""
    whole = path.read_text(encoding="utf-8") if text is None else text
    head, found, rest = whole.partition(start)
    _, ended, tail = rest.partition(end)
    assert found, f"{path.name} lacks {start}"
    assert ended, f"{path.name} lacks {end}"
    return f"{head}{start}\n{part}\n{end}{tail}"
