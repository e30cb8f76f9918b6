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

    It has one row for each key, with statistics over blocks and seeds; those that a missing kappa
    enters are missing.
    """
    frame = spectra.select(NEEDED).to_pandas()
    kappa = as_infinite(frame["kappa"])
    frame = frame.assign(kappa=kappa, logarithm=np.log(kappa), resolved=np.isfinite(kappa))
    keyed = frame.groupby(KEYS, dropna=False)
    means = frame.groupby([*KEYS, "seed"], dropna=False)["kappa"].mean()  # over blocks
    of_seeds = means.groupby(KEYS, dropna=False)
    statistics = (
        keyed[["width", "n", "d"]]
        .first()
        .assign(
            seeds=of_seeds.size(),
            blocks=keyed.size(),
            resolved=keyed["resolved"].sum(),
            kappa_geometric_mean=np.exp(keyed["logarithm"].mean()),
            kappa_seed_min=of_seeds.min(),
            kappa_seed_max=of_seeds.max(),
            kappa_nonzero_mean=keyed["kappa_nonzero"].mean(),
            effective_rank_mean=keyed["effective_rank"].mean(skipna=False),
            **{
                f"kappa_{each}": keyed["kappa"].agg(each)
                for each in ("mean", "median", "min", "max")
            },
            kappa_error_max=keyed["kappa_error"].max(),  # of those that there are
            **{f"numerical_rank_{end}": keyed["numerical_rank"].agg(end) for end in ("min", "max")},
        )
    )
    table = statistics.reset_index().replace(np.inf, np.nan)
    return pa.Table.from_pandas(table, tables.get("conditioning").schema, preserve_index=False)


def reach(kappa: ArrayLike, error: ArrayLike, *, tolerance: float) -> float:
    """Return the largest kappa up to which no error exceeds ``tolerance``, or NaN if there is none.

    ``kappa`` and ``error``, relative to it, have shape (m,), in any order.

    >>> reach([1e2, 1e8, 1e4], [0.0, 0.5, 0.001], tolerance=0.01)
    10000.0
    """
    pairs = pd.DataFrame({"kappa": kappa, "error": error}).sort_values("kappa")
    return float(pairs["kappa"][(pairs["error"] <= tolerance).cummin()].max())
