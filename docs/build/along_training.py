"""What kernels do along training, for resources/along_training/README.md."""

from pathlib import Path

import pandas as pd

from docs.build.marked import markdown_table
from ntk_conditioning.tables import collect

ROWS = Path(__file__).parents[2] / "resources/along_training"
GROUP = ["width", "relative_rate", "activation", "seed"]
HEAD = ["width", "η of its own critical rate", "‖K_t − K_0‖ / ‖K_0‖"]
HEAD += ["κ_t / κ_0, ReLU and normalised", "κ_t / κ_0, tanh", "κ falls with depth: before", "after"]
HEAD += ["η/2 · sharpness: before", "after"]


def in_markdown() -> str:
    """Return, by width and rate, medians over networks with their range in brackets."""
    files = sorted(ROWS.glob("kernels_along_training/**/*.parquet"))
    rows = collect(files, "kernels_along_training").to_pandas()
    rows["stability"] = rows["learning_rate"] * rows["sharpness"] / 2
    by_network = rows.sort_values("epoch").groupby([*GROUP, "depth"])
    # what was measured first (_0) and last (_1)
    networks = by_network.first().join(by_network.last(), suffixes=("_0", "_1")).reset_index()
    networks["ratio"] = networks["kappa_1"] / networks["kappa_0"]
    cells = []
    for (width, rate), group in networks.groupby(["width", "relative_rate"]):
        tanh = group["activation"] == "tanh"
        cells.append(
            [
                *(str(width), f"{rate:g}", _spread(group["kernel_change_1"])),
                *(_spread(group.loc[chosen, "ratio"]) for chosen in (~tanh, tanh)),
                *(_in_order(group, column) for column in ("kappa_0", "kappa_1")),
                *(_spread(group[column]) for column in ("stability_0", "stability_1")),
            ]
        )
    return markdown_table(HEAD, cells)


def _spread(values: pd.Series) -> str:
    low, middle, high = (f"{float(f'{each:.2g}'):g}" for each in values.quantile([0, 0.5, 1]))
    return f"{middle} ({low} – {high})"


def _in_order(rows: pd.DataFrame, column: str) -> str:
    """Return in how many nets of one activation and seed each deeper one has the smaller kappa."""
    groups = [group.sort_values("depth")[column] for _, group in rows.groupby(GROUP)]
    falls = sum(values.is_monotonic_decreasing and values.is_unique for values in groups)
    return f"{falls} of {len(groups)}"
