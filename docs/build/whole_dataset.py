"""Kappa against the number of samples, for docs/whole_dataset.md, from resources."""

from pathlib import Path

import numpy as np

from docs.build.marked import markdown_table
from ntk_conditioning import tables
from ntk_conditioning.plotting import label

TABLE = Path(__file__).parents[2] / "resources/whole_dataset/whole_dataset.parquet"
BLOCK, FIRST = 512, 256  # samples of a block, and from which on powers of n are fitted


def in_markdown() -> str:
    """Return kappa on a block and on more samples, and its powers of n, by dataset and depth."""
    table = tables.read(TABLE, "whole_dataset").to_pandas()
    table = table.query("activation == 'relu' and depth > 0")
    exact, bounds = (table.query("method == @m and n >= @FIRST") for m in ("exact", "products"))
    most, whole, seeds = exact["n"].max(), bounds["n"].max(), table["seed"].nunique()
    head = ["dataset", "depth", f"κ, n = {BLOCK}", f"n = {most:,}", f"n = {whole:,}", "power of n"]
    rows = []
    for (dataset, depth), solved in exact.groupby(["dataset", "depth"]):
        products = bounds.query("dataset == @dataset and depth == @depth")
        cells = [label("dataset", dataset), f"{depth}"]
        cells += [_geometric(solved, "kappa", BLOCK), _geometric(solved, "kappa", most)]
        cells.append(f"≥ {_geometric(products, 'kappa_bound', whole)}")
        rows.append([*cells, _power(solved)])
    networks = "one network" if seeds == 1 else f"{seeds} networks"
    by_dataset = exact.query("n == @most").groupby("dataset")["seed"].nunique()
    of_most = " or ".join(map(str, sorted(set(by_dataset))))
    note = f"Of {networks} of each depth, width {table['width'].max()}; n = {most:,} of {of_most}, "
    note += f"bounds of {bounds['seed'].nunique()}; [table](../resources/whole_dataset/README.md)."
    return f"{markdown_table(head, rows)}\n\n{note}"


def _geometric(rows, column: str, n: int) -> str:
    """Return the geometric mean over seeds."""
    return f"{np.exp(np.log(rows.query('n == @n')[column]).mean()):,.3g}"


def _power(rows) -> str:
    """Return the mean over seeds of powers of n that are fitted to kappa, and their range."""
    logs = (np.log(one[["n", "kappa"]].to_numpy()) for _, one in rows.groupby("seed"))
    fits = [np.polyfit(*both.T, 1)[0] for both in logs]
    spread = f" ({min(fits):.2f} – {max(fits):.2f})" if len(fits) > 1 else ""
    return f"{np.mean(fits):.2f}{spread}"
