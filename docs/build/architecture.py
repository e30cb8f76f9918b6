"""Diagrams for CONTRIBUTING.md: which room imports which, which rule makes what others read."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import grimp
import networkx as nx

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "ntk_conditioning": "The science: arrays and torch modules in, arrays and dataclasses out.",
    "ntk_workflow": "The pipeline's library, for `rules/` and `scripts/`; it imports the science.",
}
RULES = """\
### Rules

From data to pages: an arrow leads to a rule that reads what the first one makes. These are the
demo's rules, as `snakemake --rulegraph mermaid-js` has them; `download_file` comes first where a
dataset is downloaded, and `bundle` puts all into one file.
"""


def in_markdown() -> str:
    """Return a diagram of each package and one of the rules."""
    imports = grimp.build_graph(*PACKAGES)
    parts = []
    for package, says in PACKAGES.items():
        arrows = []
        for module in imports.modules:
            for other in imports.find_modules_directly_imported_by(module):
                if module.startswith(f"{package}.") and other.startswith(f"{package}."):
                    arrows.append((module.split(".")[1], other.split(".")[1]))
        parts.append(f"### {package}\n\n{says}\n\n{diagram(arrows)}")
    return "\n".join([*parts, f"{RULES}\n{diagram(rules())}"]).rstrip()


def rules() -> list[tuple[str, str]]:
    """Return which rules of the demo read what others make, without targets."""
    arguments = ("--snakefile", str(ROOT / "Snakefile"), "--rulegraph", "mermaid-js")
    command = [sys.executable, "-m", "snakemake", *arguments]
    with tempfile.TemporaryDirectory() as scratch:  # where nothing has been made
        drawn = subprocess.check_output(command, cwd=scratch, stderr=subprocess.DEVNULL, text=True)
    names = dict(re.findall(r"^\s*(id\d+)\[(\w+)\]$", drawn, re.MULTILINE))
    arrows = re.findall(r"^\s*(id\d+) --> (id\d+)$", drawn, re.MULTILINE)
    return [(names[rule], names[other]) for rule, other in arrows if names[other] != "all"]


def diagram(arrows: list[tuple[str, str]]) -> str:
    """Return a Mermaid diagram; a graph with a circle has none."""
    graph = nx.DiGraph((one, other) for one, other in arrows if one != other)
    reduced = sorted(nx.transitive_reduction(graph).edges)
    lines = [f"    {one} --> {other}" for one, other in reduced]
    return "\n".join(["```mermaid", "flowchart TB", *lines, "```", ""])
