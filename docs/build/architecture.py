"""docs/architecture.md: which room imports which, and which rule makes what other rules read."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grimp
import networkx as nx

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "ntk_conditioning": "The science: arrays and torch modules in, arrays and dataclasses out.",
    "ntk_workflow": "The pipeline's library, for `rules/` and `scripts/`; it imports the science.",
}
TEXT = """\
# Architecture

`ntk_conditioning` is the science, `ntk_workflow` the library of the pipeline. The science does not
import the pipeline, and a room imports only rooms below it: `make lint` checks both. An arrow that
follows from others is left out. `PYTHONPATH=src:scripts python -m docs.build` writes this page.
"""
RULES = """
## Rules

From data to pages: an arrow leads to a rule that reads what the first one makes. These are the
demo's rules, as `snakemake --rulegraph mermaid-js` has them; `download_file` comes first where a
dataset is downloaded, and `bundle` puts all into one file.
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
    return "\n".join([text + RULES, *diagram(rules()), ""])


def rules() -> nx.DiGraph:
    """Return the graph of the rules of the demo, without targets, as Snakemake draws it."""
    arguments = ("--snakefile", str(ROOT / "Snakefile"), "--rulegraph", "mermaid-js")
    command = [sys.executable, "-m", "snakemake", *arguments]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as scratch:  # where nothing has been made
        done = subprocess.run(
            command, cwd=scratch, env=os.environ | {"PATH": path}, capture_output=True, text=True
        )
    names = dict(re.findall(r"^\s*(id\d+)\[(\w+)\]$", done.stdout, re.MULTILINE))
    arrows = re.findall(r"^\s*(id\d+) --> (id\d+)$", done.stdout, re.MULTILINE)
    assert "all" in names.values(), done.stderr
    graph = nx.DiGraph((names[rule], names[other]) for rule, other in arrows)
    graph.add_nodes_from(names.values())
    graph.remove_node("all")
    return graph


def diagram(rooms: nx.DiGraph) -> Iterator[str]:
    """Yield the lines of a Mermaid diagram; a graph with a circle has none."""
    reduced = nx.transitive_reduction(rooms)
    yield from ("```mermaid", "flowchart TB")
    yield from (f"    {room}" for room in sorted(nx.isolates(reduced)))
    yield from (f"    {room} --> {other}" for room, other in sorted(reduced.edges))
    yield "```"
