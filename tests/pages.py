"""Write what programs write of the documents: all, or what is named.

PYTHONPATH=src:scripts python -m tests.pages [NAME ...]
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from ntk_conditioning.files import write_text
from tests import (
    advice_example,
    along_page,
    architecture,
    architectures_page,
    deep_page,
    explorer_charts,
    faq_page,
    fig3_page,
    precision_page,
)
from tests.marked import with_part

ROOT = Path(__file__).parents[1]
#: By name whole files, and parts of documents that stand between marks of that name.
FILES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "architecture": ("docs/architecture.md", architecture.page),
    "charts": ("src/ntk_workflow/explorer/charts.yaml", explorer_charts.described),
    "faq": ("docs/faq.md", faq_page.page),
}
PARTS: Mapping[str, tuple[str, Callable[[], str]]] = {
    "advice": ("docs/advice.md", advice_example.in_markdown),
    "along training": ("docs/why_deeper_trains.md", along_page.in_markdown),
    "architectures": ("docs/ntk_of_your_network.md", architectures_page.in_markdown),
    "deep networks": ("docs/agarwal2021deep.md", deep_page.in_markdown),
    "figure 3": ("docs/why_deeper_trains.md", fig3_page.in_markdown),
    "figure 3 at the published size": ("docs/why_deeper_trains.md", fig3_page.published),
    "precision": ("docs/numerics.md", precision_page.in_markdown),
}


def written(name: str) -> tuple[Path, str]:
    """Return a file, and its text as programs write it now."""
    file, make = {**FILES, **PARTS}[name]
    path, text = ROOT / file, make()
    return path, text if name in FILES else with_part(path, name, f"{text}\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or [*FILES, *PARTS]:
        write_text(*written(name))
