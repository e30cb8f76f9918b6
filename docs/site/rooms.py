"""Diagrams of what imports what, without the script that would draw them in the browser."""

import re
from collections import defaultdict
from functools import cache

DIAGRAM = re.compile(r"```mermaid\nflowchart TB\n(.*?)```", re.DOTALL)


def drawn(markdown: str) -> str:
    """Return a page with each diagram as rows of rooms, which import from rows below only."""
    return DIAGRAM.sub(lambda match: _rows(match[1]), markdown)


def _rows(arrows: str) -> str:
    imports: defaultdict[str, list[str]] = defaultdict(list)
    for above, below in re.findall(r"(\w+) --> (\w+)", arrows):
        imports[above].append(below)
        imports[below]  # one that imports nothing is a room, too

    @cache
    def height(room: str) -> int:
        return 1 + max(map(height, imports[room]), default=0)

    rows = defaultdict(list)
    for room, below in imports.items():
        named = f"→ {', '.join(below)}" if below else ""
        rows[height(room)].append(f"<div><b>{room}</b> {named}</div>")
    lines = [f'<div class="row">{"".join(rows[number])}</div>' for number in sorted(rows)[::-1]]
    return f'<div class="rooms">{"".join(lines)}</div>\n'
