"""Missing kappas in statistics: larger than any number, since float64 does not resolve them."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from ntk_conditioning import tables

KEYS = list(tables.get("conditioning").keys)
#: Columns of the spectra that `summarize` needs; without the eigenvalues, most of the bytes.
NEEDED = (
    *(*KEYS, "block", "width", "n", "d", "seed"),
    *("kappa", "kappa_error", "kappa_nonzero", "numerical_rank", "effective_rank"),
)


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

    It has a row for each key, with statistics over blocks and seeds, missing where a kappa is.
    """
    frame = spectra.select(NEEDED).to_pandas()
    kappa = as_infinite(frame["kappa"])
    frame = frame.assign(kappa=kappa, logarithm=np.log(kappa), resolved=np.isfinite(kappa))
    means = frame.groupby([*KEYS, "seed"], dropna=False)["kappa"].mean()  # over blocks
    of_seeds = means.groupby(KEYS, dropna=False)
    table = frame.groupby(KEYS, dropna=False).agg(
        width=("width", "first"),
        n=("n", "first"),
        d=("d", "first"),
        seeds=("seed", "nunique"),
        blocks=("block", "size"),
        resolved=("resolved", "sum"),
        kappa_mean=("kappa", "mean"),
        kappa_geometric_mean=("logarithm", "mean"),
        kappa_median=("kappa", "median"),
        kappa_min=("kappa", "min"),
        kappa_max=("kappa", "max"),
        kappa_error_max=("kappa_error", "max"),  # of those that there are
        kappa_nonzero_mean=("kappa_nonzero", "mean"),
        numerical_rank_min=("numerical_rank", "min"),
        numerical_rank_max=("numerical_rank", "max"),
        effective_rank_mean=("effective_rank", lambda ranks: ranks.mean(skipna=False)),
    )
    table["kappa_geometric_mean"] = np.exp(table["kappa_geometric_mean"])
    table = table.assign(kappa_seed_min=of_seeds.min(), kappa_seed_max=of_seeds.max())
    finite = table.reset_index().replace(np.inf, np.nan)
    return pa.Table.from_pandas(finite, tables.get("conditioning").schema, preserve_index=False)


def reach(kappa: ArrayLike, error: ArrayLike, *, tolerance: float) -> float:
    """Return the largest kappa up to which no error exceeds ``tolerance``, or NaN if there is none.

    ``kappa`` and ``error``, relative to it, have shape (m,), in any order.

    >>> reach([1e2, 1e8, 1e4], [0.0, 0.5, 0.001], tolerance=0.01)
    10000.0
    """
    pairs = pd.DataFrame({"kappa": kappa, "error": error})
    pairs = pairs.sort_values(["kappa", "error"], ascending=[True, False])
    return float(pairs["kappa"][(pairs["error"] <= tolerance).cummin()].max())
