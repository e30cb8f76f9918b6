"""The table of condition numbers: one row per curve point, over all its blocks and seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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


NEEDED = (
    *CONDITIONING.keys,
    "seed",
    "block",
    "width",
    "n",
    "d",
    "kappa",
    "kappa_error",
    "kappa_nonzero",
    "numerical_rank",
    "effective_rank",
)
"""Columns of the spectra that `summarize` needs; without the eigenvalues, most of the bytes."""


def summarize(spectra: pa.Table) -> pa.Table:
    """Return the conditioning table of a spectra table, of which it needs the columns `NEEDED`."""
    keys = CONDITIONING.keys
    order = [(key, "ascending") for key in (*keys, "seed")]
    spectra = spectra.select(NEEDED).sort_by(order).combine_chunks()
    starts = _starts(spectra.select(keys))
    firsts = pa.array(starts, pa.int64())  # typed, for a table without rows
    points = spectra.select([*keys, "width", "n", "d"]).take(firsts).to_pylist()
    columns = _Blocks.of(spectra)
    rows = (
        point | _summary(columns[start:end])
        for point, start, end in zip(points, starts, [*starts, len(spectra)][1:], strict=True)
    )
    return from_rows(CONDITIONING, rows)


@dataclass(frozen=True)
class _Blocks:
    """Columns of the spectra as arrays, a missing kappa or bound as infinity, or minus infinity."""

    seed: NDArray[np.int64]
    kappa: NDArray[np.float64]
    kappa_error: NDArray[np.float64]
    kappa_nonzero: NDArray[np.float64]
    numerical_rank: NDArray[np.int64]
    effective_rank: NDArray[np.float64]

    @classmethod
    def of(cls, spectra: pa.Table) -> _Blocks:
        absent = {"kappa": math.inf, "kappa_error": -math.inf, "effective_rank": math.nan}
        columns = {field.name: spectra[field.name] for field in fields(cls)}
        return cls(
            **{
                name: (column.fill_null(absent[name]) if name in absent else column).to_numpy()
                for name, column in columns.items()
            }
        )

    def __getitem__(self, rows: slice) -> _Blocks:
        return _Blocks(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


def _starts(keys: pa.Table) -> list[int]:
    """Return where in a sorted table with one chunk the rows of another key begin."""
    before, after = keys.slice(0, max(len(keys) - 1, 0)), keys.slice(1)
    differs = np.zeros(len(before), dtype=bool)
    for name in keys.column_names:
        differs |= pc.not_equal(before[name], after[name]).to_numpy()
    return [*([0] if len(keys) else []), *(np.flatnonzero(differs) + 1).tolist()]


def _summary(blocks: _Blocks) -> dict[str, Any]:
    kappa = blocks.kappa
    per_seed = np.array([np.mean(kappa[index]) for index in _indices_by(blocks.seed)])
    statistics = {
        "mean": np.mean(kappa),
        "geometric_mean": np.exp(np.mean(np.log(kappa))),
        "median": np.median(kappa) if np.isfinite(kappa).sum() * 2 > len(kappa) else np.inf,
        "min": np.min(kappa),
        "max": np.max(kappa),
        "seed_min": np.min(per_seed),
        "seed_max": np.max(per_seed),
    }
    return {
        "seeds": len(per_seed),
        "blocks": len(kappa),
        "resolved": int(np.isfinite(kappa).sum()),
        **{f"kappa_{name}": _finite(value) for name, value in statistics.items()},
        "kappa_error_max": float(error) if (error := np.max(blocks.kappa_error)) >= 0 else None,
        "kappa_nonzero_mean": float(np.mean(blocks.kappa_nonzero)),
        "numerical_rank_min": int(blocks.numerical_rank.min()),
        "numerical_rank_max": int(blocks.numerical_rank.max()),
        "effective_rank_mean": _finite(np.mean(blocks.effective_rank)),
    }


def _finite(value: np.floating[Any]) -> float | None:
    return float(value) if np.isfinite(value) else None


def _indices_by(labels: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
    for label in np.unique(labels):
        yield np.flatnonzero(labels == label)
