"""The table of condition numbers: one row per curve point, over all its blocks and seeds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ntk_conditioning.tables import Column, Table, from_rows
from ntk_conditioning.tables.spectra import GRID


def _kappa(name: str, meaning: str) -> Column:
    return Column(f"kappa_{name}", pa.float64(), meaning, nullable=True)


CONDITIONING = Table(
    name="conditioning",
    description=(
        "Condition numbers over all blocks and seeds of a curve point. An unresolved kappa counts "
        "as larger than any number, so a mean or maximum that it enters is missing, while the "
        "median and the minimum may still exist."
    ),
    keys=("kernel", "dataset", "activation", "depth"),
    columns=(
        *GRID,
        Column(
            "width", pa.int64(), "hidden units per layer; missing at infinite width", nullable=True
        ),
        Column("n", pa.int64(), "samples per block"),
        Column("d", pa.int64(), "input dimension"),
        Column("seeds", pa.int64(), "number of seeds"),
        Column("blocks", pa.int64(), "number of blocks over all seeds"),
        Column("resolved", pa.int64(), "blocks whose smallest eigenvalue is above the floor"),
        _kappa("mean", "mean over blocks and seeds, as liu2023relu reports it"),
        _kappa("geometric_mean", "geometric mean over blocks and seeds"),
        _kappa("median", "median over blocks and seeds"),
        _kappa("min", "smallest over blocks and seeds"),
        _kappa("max", "largest over blocks and seeds"),
        _kappa("seed_min", "smallest of the seeds' means over blocks"),
        _kappa("seed_max", "largest of the seeds' means over blocks"),
        Column(
            "kappa_error_max",
            pa.float64(),
            "largest bound on the relative error of a block's kappa by the eigenvalue solver",
            nullable=True,
        ),
        Column("kappa_nonzero_mean", pa.float64(), "mean of kappa over the non-zero eigenvalues"),
        Column("numerical_rank_min", pa.int64(), "smallest numerical rank of a block"),
        Column("numerical_rank_max", pa.int64(), "largest numerical rank of a block"),
        Column(
            "effective_rank_mean", pa.float64(), "mean effective rank of a block", nullable=True
        ),
    ),
)


def summarize(spectra: pa.Table) -> pa.Table:
    """Return the conditioning table of a spectra table."""
    needed = [column for column in spectra.column_names if column != "eigenvalues"]
    keys = CONDITIONING.keys
    rows = (
        spectra.select(needed).sort_by([(key, "ascending") for key in (*keys, "seed")]).to_pylist()
    )
    by_point = groupby(rows, key=itemgetter(*keys))
    return from_rows(CONDITIONING, (_summary(list(group)) for _, group in by_point))


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    first = rows[0]
    kappa = np.array([np.inf if row["kappa"] is None else row["kappa"] for row in rows])
    per_seed = np.array(
        [np.mean(kappa[index]) for index in _indices_by([row["seed"] for row in rows])]
    )
    statistics = {
        "mean": np.mean(kappa),
        "geometric_mean": np.exp(np.mean(np.log(kappa))),
        "median": np.median(kappa) if np.isfinite(kappa).sum() * 2 > len(kappa) else np.inf,
        "min": np.min(kappa),
        "max": np.max(kappa),
        "seed_min": np.min(per_seed),
        "seed_max": np.max(per_seed),
    }
    ranks = [row["numerical_rank"] for row in rows]
    return {
        **{column.name: first[column.name] for column in GRID},
        "width": first["width"],
        "n": first["n"],
        "d": first["d"],
        "seeds": len(per_seed),
        "blocks": len(rows),
        "resolved": int(np.isfinite(kappa).sum()),
        **{
            f"kappa_{name}": float(value) if np.isfinite(value) else None
            for name, value in statistics.items()
        },
        "kappa_error_max": max(
            (row["kappa_error"] for row in rows if row["kappa_error"] is not None), default=None
        ),
        "kappa_nonzero_mean": float(np.mean([row["kappa_nonzero"] for row in rows])),
        "numerical_rank_min": min(ranks),
        "numerical_rank_max": max(ranks),
        "effective_rank_mean": _mean_of_all([row["effective_rank"] for row in rows]),
    }


def _mean_of_all(values: list[float | None]) -> float | None:
    """Return the mean, which is missing if a value is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _indices_by(labels: list[int]) -> Iterator[NDArray[np.intp]]:
    values = np.asarray(labels)
    for value in np.unique(values):
        yield np.flatnonzero(values == value)
