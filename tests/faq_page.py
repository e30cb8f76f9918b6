"""The page of questions and answers: runs its snippets and writes what they print below them."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/faq.md"
SNIPPET = re.compile(r"```python\n(.*?)```\n(?:\n```\n.*?```\n)?", re.DOTALL)


def page() -> str:
    """Return the page with what its snippets print."""
    return SNIPPET.sub(_run, PAGE.read_text(encoding="utf-8"))


def _run(match: re.Match[str]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(match[1], {"__name__": "faq"})
    return f"```python\n{match[1]}```\n\n```\n{printed.getvalue()}```\n"
