"""How the products of a run are listed: targets of figures, and the report's categories."""

import re
from pathlib import Path

#: What the report lists, in this order: it sorts by name. Papers are called as in notebooks/.
CATEGORIES = {
    "explorer": "1 Explorer",
    "claims": "2 Claims",
    "liu2023relu": "3 Liu and Hui (2023)",
    "agarwal2021deep": "4 Agarwal, Awasthi and Kale (2021)",
    "liu2022transition": "5 Liu, Zhu and Belkin (2022)",
    "beyond": "6 Beyond the papers",
    "tables": "7 Data and tables",
    "run": "8 The run",
}
PAGES = {
    "datasets": "Datasheets",
    "conditioning": "Condition numbers",
    "learning_rates": "Best learning rates",
    "run": "Config and versions",
}

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def target(figure: str) -> str:
    """Return a figure's short target: ``liu2023relu_fig2``, ``beyond_spectrum_decay``."""
    paper, name = figure.split("/")
    short = name.split("_")[0]
    return f"{paper}_{short}" if re.fullmatch(r"fig\d+", short) else f"{paper}_{name}"


def title(figure: str) -> str:
    """Return the title with which a figure's caption begins: its name in the report."""
    path = NOTEBOOKS / f"{figure}.rst"
    bold = re.match(r"\*\*(.+?)\.?\*\*", " ".join(path.read_text(encoding="utf-8").split()))
    if not bold:
        raise ValueError(f"{path}: begin with a title: **What against what.**")
    number = re.search(r"\bfig(\d+)_", figure)
    return f"Figure {number[1]}: {bold[1]}" if number else bold[1]
