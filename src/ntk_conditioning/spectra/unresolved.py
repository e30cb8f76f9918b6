"""Missing kappas in statistics: larger than any number, since float64 does not resolve them."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from ntk_conditioning import tables

KEYS = list(tables.get("conditioning").keys)
POINT = ["width", "n", "d"]
VALUES = ["seed", "kappa", "kappa_error", "kappa_nonzero", "numerical_rank", "effective_rank"]
#: Columns of the spectra that `summarize` needs; without the eigenvalues, most of the bytes.
NEEDED = (*KEYS, "block", *POINT, *VALUES)


def as_infinite(kappa: ArrayLike) -> NDArray[np.float64]:
    """Return kappas with infinity where they are missing, NaN or None.

    >>> kappa = as_infinite([3.0, None, 5.0])
    >>> or_missing(np.median(kappa)), or_missing(np.mean(kappa))
    (5.0, None)
    """
    values = np.asarray(kappa, dtype=np.float64)
    return np.where(np.isnan(values), np.inf, values)


def or_missing(statistic: float) -> float | None:
    """Return a statistic of such kappas, None where it is not finite."""
    return float(statistic) if math.isfinite(statistic) else None


def summarize(spectra: pa.Table) -> pa.Table:
    """Return the conditioning table of a spectra table, which needs the columns `NEEDED` only.

    It has one row for each key, with statistics over blocks and seeds; those that a missing kappa
    enters are missing.
    """
    frame = spectra.select(NEEDED).to_pandas().sort_values([*KEYS, "seed", "block"])
    rows = []
    for key, blocks in frame.groupby(KEYS, dropna=False):
        first = {name: blocks[name].iloc[0] for name in POINT}
        width = None if pd.isna(first["width"]) else int(first["width"])
        names = dict(zip(KEYS, key, strict=True))
        rows.append(names | first | {"width": width} | _statistics(blocks))
    return tables.from_rows("conditioning", rows)


def _statistics(blocks: pd.DataFrame) -> dict[str, Any]:
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
