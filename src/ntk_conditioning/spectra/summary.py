"""The summary of spectra over blocks and seeds, and how far a recipe for kappa reaches."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike

from ntk_conditioning import tables
from ntk_conditioning.spectra.unresolved import as_infinite, or_missing

_KEYS = list(tables.get("conditioning").keys)
_POINT = ["width", "n", "d"]
_VALUES = ["seed", "kappa", "kappa_error", "kappa_nonzero", "numerical_rank", "effective_rank"]
#: Columns of the spectra that `summarize` needs; without the eigenvalues, most of the bytes.
NEEDED = (*_KEYS, "block", *_POINT, *_VALUES)


def summarize(spectra: pa.Table) -> pa.Table:
    """Return the conditioning table of a spectra table, which needs the columns `NEEDED` only.

    It has one row for each key, with statistics over blocks and seeds; those that a missing kappa
    enters are missing, see `unresolved`.
    """
    frame = spectra.select(NEEDED).to_pandas().sort_values([*_KEYS, "seed", "block"])
    rows = []
    for key, blocks in frame.groupby(_KEYS, dropna=False):
        first = {name: blocks[name].iloc[0] for name in _POINT}
        width = None if pd.isna(first["width"]) else int(first["width"])
        rows.append(dict(zip(_KEYS, key, strict=True)) | first | {"width": width} | _row(blocks))
    return tables.from_rows("conditioning", rows)


def _row(blocks: pd.DataFrame) -> dict[str, Any]:
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


def reach(kappa: ArrayLike, error: ArrayLike, *, tolerance: float) -> float:
    """Return the largest kappa up to which no error exceeds ``tolerance``, or NaN if there is none.

    ``kappa`` and ``error``, relative to it, have shape (m,), in any order.

    >>> reach([1e2, 1e8, 1e4], [0.0, 0.5, 0.001], tolerance=0.01)
    10000.0
    """
    pairs = pd.DataFrame({"kappa": kappa, "error": error}).sort_values("kappa")
    return float(pairs["kappa"][(pairs["error"] <= tolerance).cummin()].max())
