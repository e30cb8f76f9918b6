"""The summary of spectra over blocks and seeds, and how far a recipe for kappa reaches."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from ntk_conditioning import tables
from ntk_conditioning.spectra.unresolved import as_infinite, or_missing

_KEYS = tables.get("conditioning").keys
_POINT = ["width", "n", "d"]
_VALUES = ["seed", "kappa", "kappa_error", "kappa_nonzero", "numerical_rank", "effective_rank"]
#: Columns of the spectra that `summarize` needs; without the eigenvalues, most of the bytes.
NEEDED = (*_KEYS, "block", *_POINT, *_VALUES)


def summarize(spectra: pa.Table) -> pa.Table:
    """Return the conditioning table of a spectra table, of which it needs the columns `NEEDED`."""
    keys = list(_KEYS)
    order = [(key, "ascending") for key in keys]
    spectra = spectra.select(NEEDED).sort_by([*order, ("seed", "ascending")])
    groups = spectra.group_by(keys, use_threads=False).aggregate(
        [*((name, "first") for name in _POINT), ([], "count_all")]
    )
    points = groups.rename_columns([*keys, *_POINT, "blocks"]).sort_by(order).to_pylist()
    values = {name: spectra[name].to_numpy() for name in _VALUES}
    ends = np.cumsum([point["blocks"] for point in points], dtype=int)
    rows = [
        point | _summary({name: each[end - point["blocks"] : end] for name, each in values.items()})
        for point, end in zip(points, ends, strict=True)
    ]
    return tables.from_rows("conditioning", rows)


def _summary(blocks: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    kappa, seeds = as_infinite(blocks["kappa"]), np.unique(blocks["seed"])
    per_seed = [np.mean(kappa[blocks["seed"] == seed]) for seed in seeds]
    ranks, errors = blocks["numerical_rank"], blocks["kappa_error"]
    statistics = {
        "kappa_mean": np.mean(kappa),
        "kappa_geometric_mean": np.exp(np.mean(np.log(kappa))),
        "kappa_median": np.median(kappa),
        "kappa_min": np.min(kappa),
        "kappa_max": np.max(kappa),
        "kappa_seed_min": np.min(per_seed),
        "kappa_seed_max": np.max(per_seed),
        "kappa_error_max": np.fmax.reduce(errors),  # of those that there are
        "effective_rank_mean": np.mean(blocks["effective_rank"]),
    }
    return {
        "seeds": len(seeds),
        "resolved": int(np.isfinite(kappa).sum()),
        "kappa_nonzero_mean": float(np.mean(blocks["kappa_nonzero"])),
        "numerical_rank_min": int(ranks.min()),
        "numerical_rank_max": int(ranks.max()),
        **{name: or_missing(value) for name, value in statistics.items()},
    }


def reach(kappa: ArrayLike, error: ArrayLike, *, tolerance: float) -> float:
    """Return the largest ``kappa`` up to which no ``error`` exceeds ``tolerance``, or NaN.

    >>> reach([1e2, 1e8, 1e4], [0.0, 0.5, 0.001], tolerance=0.01)
    10000.0
    """
    kappa, error = np.asarray(kappa, dtype=np.float64), np.asarray(error, dtype=np.float64)
    order = np.argsort(kappa)
    good = np.logical_and.accumulate(error[order] <= tolerance)
    return float(kappa[order][good].max(initial=-np.inf)) if good.any() else float("nan")
