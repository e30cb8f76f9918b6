"""Summarise the condition numbers of rows over blocks and seeds, one row per curve point."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ntk_conditioning import tables
from ntk_conditioning.spectra.unresolved import as_infinite, or_missing
from ntk_workflow import cli

KEYS = list(tables.get("conditioning").keys)
POINT = ["width", "n", "d"]
VALUES = ["seed", "kappa", "kappa_error", "kappa_nonzero", "numerical_rank", "effective_rank"]
#: Columns of the spectra that `summarize` needs; without the eigenvalues, most of the bytes.
NEEDED = (*KEYS, "block", *POINT, *VALUES)


def summarize(spectra: pa.Table) -> pa.Table:
    """Return the conditioning table of a spectra table, which needs the columns `NEEDED` only.

    It has one row for each key, with statistics over blocks and seeds; those that a missing kappa
    enters are missing, see `unresolved`.
    """
    frame = spectra.select(NEEDED).to_pandas().sort_values([*KEYS, "seed", "block"])
    rows = []
    for key, blocks in frame.groupby(KEYS, dropna=False):
        first = {name: blocks[name].iloc[0] for name in POINT}
        width = None if pd.isna(first["width"]) else int(first["width"])
        names = dict(zip(KEYS, key, strict=True))
        rows.append(names | first | {"width": width} | statistics_of(blocks))
    return tables.from_rows("conditioning", rows)


def statistics_of(blocks: pd.DataFrame) -> dict[str, Any]:
    kappa, seeds = as_infinite(blocks["kappa"]), blocks["seed"].to_numpy()
    per_seed = [np.mean(kappa[seeds == seed]) for seed in np.unique(seeds)]
    statistics = {
        "kappa_mean": np.mean(kappa),
        "kappa_geometric_mean": np.exp(np.mean(np.log(kappa))),
        "kappa_median": np.median(kappa),
        "kappa_min": np.min(kappa),
        "kappa_max": np.max(kappa),
        "kappa_seed_min": np.min(per_seed),
        "kappa_seed_max": np.max(per_seed),
        "kappa_error_max": blocks["kappa_error"].max(),  # of those that there are
        "effective_rank_mean": blocks["effective_rank"].mean(skipna=False),
    }
    return {
        "seeds": len(per_seed),
        "blocks": len(blocks),
        "resolved": int(np.isfinite(kappa).sum()),
        "kappa_nonzero_mean": blocks["kappa_nonzero"].mean(),
        "numerical_rank_min": blocks["numerical_rank"].min(),
        "numerical_rank_max": blocks["numerical_rank"].max(),
        **{name: or_missing(value) for name, value in statistics.items()},
    }


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser("output", description=__doc__)
    parser.add_argument("--rows", type=Path, nargs="*", required=True, help="spectra (.parquet)")
    args = parser.parse_args(argv)
    spectra = tables.collect(args.rows, "spectra", columns=NEEDED)
    tables.write(args.output, "conditioning", summarize(spectra))
