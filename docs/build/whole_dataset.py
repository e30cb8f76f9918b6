"""Kappa against the number of samples, for docs/whole_dataset.md, from resources."""

from pathlib import Path

import numpy as np

from docs.build.marked import markdown_table
from ntk_conditioning import tables
from ntk_conditioning.plotting import label

TABLE = Path(__file__).parents[2] / "resources/whole_dataset/whole_dataset.parquet"
BLOCK, FIRST = 512, 256  # samples of a block, and from which on powers of n are fitted


def in_markdown() -> str:
    """Return kappa on a block and on more samples, and the powers of n, by dataset and depth."""
    table = tables.read(TABLE, "whole_dataset").to_pandas().query("activation == 'relu'")
    rows = []
    for (dataset, depth), group in table.groupby(["dataset", "depth"]):
        solved = group.dropna(subset="kappa").query("n >= @FIRST")
        largest = solved["n"].max()
        cells = [label("dataset", dataset), f"{depth}", _geometric(solved, "kappa", BLOCK)]
        if largest > BLOCK:
            cells += [f"{_geometric(solved, 'kappa', largest)} (n = {largest:,})"]
            cells += [_power(solved, column) for column in ("kappa", "lambda_max", "lambda_min")]
        else:
            cells += ["hidden by rounding", *["–"] * 3]
        bounds = group.query("method == 'products'")
        most = bounds["n"].max()
        cells.append("–" if bounds.empty else f"{_geometric(bounds, 'kappa_bound', most)}")
        rows.append(cells)
    seeds, whole = table["seed"].nunique(), table["n"].max()
    head = ["dataset", "depth", f"κ, n = {BLOCK}", "κ, most samples", "power of n: κ", "λ_max"]
    head += ["λ_min", f"κ is at least, n = {whole:,}"]
    networks = "one network" if seeds == 1 else f"{seeds} networks"
    note = f"Of {networks} of each depth, width {table['width'].max()}; table `whole_dataset`."
    return f"{markdown_table(head, rows)}\n\n{note}"


def _geometric(rows, column: str, n: int) -> str:
    """Return the geometric mean over seeds."""
    values = rows.query("n == @n")[column].dropna()
    return f"{np.exp(np.log(values).mean()):,.3g}" if len(values) else "hidden by rounding"


def _power(rows, column: str) -> str:
    """Return the mean over seeds of powers of n that are fitted to each, and their range."""
    logs = (np.log(one[["n", column]].to_numpy()) for _, one in rows.groupby("seed"))
    fits = [np.polyfit(*both.T, 1)[0] for both in logs]
    spread = f" ({min(fits):.2f} – {max(fits):.2f})" if len(fits) > 1 else ""
    return f"{np.mean(fits):.2f}{spread}"
