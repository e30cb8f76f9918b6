"""What depth does to ResNets of several widths, for docs/ntk_of_your_network.md, from resources."""

from pathlib import Path

import numpy as np

from docs.build.marked import markdown_table
from ntk_conditioning import tables
from ntk_conditioning.plotting import label
from ntk_conditioning.tables import collect

ROWS = Path(__file__).parents[2] / "resources/architectures/architectures"
MODELS = {"resnet": "none", "resnet_batch_norm": "batch", "resnet_layer_norm": "layer"}
ENDS = (2, 6)


def in_markdown() -> str:
    """Return how many times depth lowers kappa: the geometric mean over networks, and the range."""
    rows = collect(sorted(ROWS.glob("*.parquet")), tables.get("architectures")).to_pandas()
    rows = rows[rows["model"].isin(MODELS)].astype({"width": int})
    network = ["model", "width", "dataset", "activation", "seed"]
    kappa = rows.pivot(index=network, columns="depth", values="kappa")
    gains = np.log(kappa[ENDS[0]] / kappa[ENDS[1]]).groupby(network[:-1])
    gains = np.exp(gains.agg(["mean", "min", "max"])).unstack(network[2:4])
    sizes = rows.groupby(["model", "width", "depth"])["parameters"].first().unstack()
    kinds = gains["mean"].columns[::-1]  # ReLU before the normalised one
    head = ["normalisation", "channels", *(f"parameters at depth {end}" for end in ENDS)]
    head += [f"{label('dataset', name)}, {label('activation', sigma)}" for name, sigma in kinds]
    cells = [
        [MODELS[model], f"{width}", *(f"{sizes.loc[(model, width), end]:,.0f}" for end in ENDS)]
        + [_spread(*(row[part][kind] for part in ("mean", "min", "max"))) for kind in kinds]
        for (model, width), row in gains.iterrows()
    ]
    return markdown_table(head, cells)


def _spread(middle: float, low: float, high: float) -> str:
    middle, low, high = (float(f"{each:.2g}") for each in (middle, low, high))
    return f"{middle:,g} ({low:,g} – {high:,g})"
