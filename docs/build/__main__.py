"""Write what programs write of the documents: all, or what is named.

PYTHONPATH=src:scripts python -m docs.build [NAME ...]
"""

import sys
from pathlib import Path

import pyarrow as pa

from docs.build import (
    advice,
    along_training,
    architecture,
    architectures,
    charts,
    deep_networks,
    figure_3,
    precision,
    stated,
    whole_dataset,
)
from docs.build.marked import with_part
from ntk_conditioning.files import write_text
from ntk_conditioning.tables import TABLES, Table

ROOT = Path(__file__).parents[2]


def described(table: Table) -> str:
    """Return a table's documentation as a Markdown section."""
    keys = ", ".join(f"`{key}`" for key in table.keys)
    lines = [f"### `{table.name}`", "", f"{table.description} Sorted by {keys}."]
    if table.like:
        return "\n".join([*lines, "", f"The columns are those of `{table.like}`."]) + "\n"
    lines += ["", "| column | type | meaning |", "| --- | --- | --- |"]
    for column in table.columns:
        text = {key.decode(): value.decode() for key, value in column.metadata.items()}
        unit = f" [{text['unit']}]" if "unit" in text else ""
        kind = column.type
        if pa.types.is_list(kind):  # its own name, list<item: …>, is a tag in Markdown
            kind = f"list of {kind.value_type}"
        if column.nullable:
            kind = f"{kind}, may be missing"
        lines.append(f"| `{column.name}` | {kind} | {text['description']}{unit} |")
    return "\n".join(lines) + "\n"


def described_tables() -> str:
    """Return the sections of all tables, from their declarations."""
    return "\n".join(map(described, TABLES.values())).rstrip()


#: By name whole files, and parts of documents that stand between marks of that name.
FILES = {
    "charts": ("src/ntk_workflow/explorer/charts.yaml", charts.described),
}
PARTS = {
    "advice": ("docs/advice.md", advice.in_markdown),
    "along training": ("resources/along_training/README.md", along_training.in_markdown),
    "architecture": ("CONTRIBUTING.md", architecture.in_markdown),
    "architectures": ("docs/ntk_of_your_network.md", architectures.in_markdown),
    "deep networks": ("docs/agarwal2021deep.md", deep_networks.in_markdown),
    "figure 3": ("resources/fig3/README.md", figure_3.in_markdown),
    "figure 3 at the published size": ("resources/fig3/README.md", figure_3.published),
    "figure 3 in short": ("docs/why_deeper_trains.md", figure_3.in_short),
    "stated": ("docs/liu2023relu.md", stated.in_markdown),
    "precision": ("docs/numerics.md", precision.in_markdown),
    "whole dataset": ("docs/whole_dataset.md", whole_dataset.in_markdown),
    "tables": ("results/README.md", described_tables),
}


def written(name: str) -> tuple[Path, str]:
    """Return a file, and its text as programs write it now."""
    file, make = {**FILES, **PARTS}[name]
    path, text = ROOT / file, make()
    return path, text if name in FILES else with_part(path, name, f"{text}\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or [*FILES, *PARTS]:
        write_text(*written(name))
