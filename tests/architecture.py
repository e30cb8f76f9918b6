"""Write docs/architecture.md: which room of both packages imports which, as Mermaid diagrams.

PYTHONPATH=src python -m tests.architecture
"""

from collections.abc import Iterator
from pathlib import Path

import grimp
import networkx as nx

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
PACKAGES = {
    "ntk_conditioning": "The science: arrays and torch modules in, arrays and dataclasses out.",
    "ntk_workflow": "The pipeline's library, for `rules/` and `scripts/`; it imports the science.",
}
TEXT = """\
# Architecture

`ntk_conditioning` is the science, `ntk_workflow` the library of the pipeline. The science does not
import the pipeline, and a room imports only rooms below it: `make lint` checks both. An arrow that
follows from others is left out. `PYTHONPATH=src python -m tests.architecture` writes this page.
"""


def rooms_and_imports(package: str) -> nx.DiGraph:
    """Return the graph of a package's rooms, its modules and folders, by what they import."""
    imports = grimp.build_graph(*PACKAGES)
    rooms = nx.DiGraph()
    for module in imports.modules:
        if room := room_of(module, package):
            rooms.add_node(room)
            others = imports.find_modules_directly_imported_by(module)
            targets = {room_of(other, package) for other in others} - {room, None}
            rooms.add_edges_from((room, target) for target in targets)
    return rooms


def room_of(module: str, package: str) -> str | None:
    """Return a module's room; None for the package itself and for modules of another one."""
    first, _, rest = module.partition(".")
    return rest.split(".")[0] if first == package and rest else None


def page() -> str:
    text = TEXT
    for package, says in PACKAGES.items():
        lines = [f"\n## {package}", "", says, "", *diagram(rooms_and_imports(package)), ""]
        text += "\n".join(lines)
    return text


def diagram(rooms: nx.DiGraph) -> Iterator[str]:
    """Yield the lines of a Mermaid diagram; a graph with a circle has none."""
    reduced = nx.transitive_reduction(rooms)
    yield from ("```mermaid", "flowchart TB")
    yield from (f"    {room}" for room in sorted(nx.isolates(reduced)))
    yield from (f"    {room} --> {other}" for room, other in sorted(reduced.edges))
    yield "```"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
