"""What kernels do along training, for docs/why_deeper_trains.md, from resources."""

from pathlib import Path

import pandas as pd

from docs.build.marked import markdown_table
from ntk_conditioning.tables import collect
from ntk_workflow.pages.rendering import shown

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "resources/along_training"
GROUP = ["width", "relative_rate", "activation", "seed"]


def networks() -> pd.DataFrame:
    """Return a row for each network and rate, with what was measured first (_0) and last (_1)."""
    files = sorted(ROWS.glob("kernels_along_training/**/*.parquet"))
    rows = collect(files, "kernels_along_training").to_pandas()
    rows["stability"] = rows["learning_rate"] * rows["sharpness"] / 2
    by_network = rows.sort_values("epoch").groupby([*GROUP, "depth"])
    return by_network.first().join(by_network.last(), suffixes=("_0", "_1")).reset_index()


def in_markdown() -> str:
    """Return, by width and rate, medians over networks with their range in brackets."""
    found, cells = networks(), []
    head = ["width", "η of its own critical rate", "‖K_t − K_0‖ / ‖K_0‖"]
    head += ["κ_t / κ_0, ReLU and normalised", "κ_t / κ_0, tanh", "κ falls with depth: before"]
    head += ["after", "η/2 · sharpness: before", "after"]
    found["ratio"] = found["kappa_1"] / found["kappa_0"]
    for (width, rate), group in found.groupby(["width", "relative_rate"]):
        tanh = group["activation"] == "tanh"
        ratios = [_spread(group.loc[chosen, "ratio"]) for chosen in (~tanh, tanh)]
        change, *stability = map(_spread, map(group.get, MEASURED))
        order = [_in_order(group, column) for column in ("kappa_0", "kappa_1")]
        cells.append([str(width), f"{rate:g}", change, *ratios, *order, *stability])
    return markdown_table(head, cells)


MEASURED = ("kernel_change_1", "stability_0", "stability_1")


def _spread(values: pd.Series) -> str:
    low, middle, high = (f"{float(f'{each:.2g}'):g}" for each in values.quantile([0, 0.5, 1]))
    return f"{middle} ({low} – {high})"


def _in_order(rows: pd.DataFrame, column: str) -> str:
    """Return in how many nets of one activation and seed each deeper one has the smaller kappa."""
    groups = [group.sort_values("depth")[column] for _, group in rows.groupby(GROUP)]
    falls = sum(values.is_monotonic_decreasing and values.is_unique for values in groups)
    return f"{shown(falls)} of {len(groups)}"
