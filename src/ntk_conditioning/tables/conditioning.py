"""The table of condition numbers: one row per curve point, over all its blocks and seeds."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ntk_conditioning.tables import declared, from_rows
from ntk_conditioning.tables.spectra import SPECTRA
from ntk_conditioning.tables.unresolved import as_infinite, or_missing

CONDITIONING = declared(__file__, like=SPECTRA)

_POINT = ["width", "n", "d"]
_VALUES = ["seed", "kappa", "kappa_error", "kappa_nonzero", "numerical_rank", "effective_rank"]
#: Columns of the spectra that `summarize` needs; without the eigenvalues, most of the bytes.
NEEDED = (*CONDITIONING.keys, "block", *_POINT, *_VALUES)


def summarize(spectra: pa.Table) -> pa.Table:
    """Return the conditioning table of a spectra table, of which it needs the columns `NEEDED`."""
    keys = list(CONDITIONING.keys)
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
    return from_rows(CONDITIONING, rows)


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
