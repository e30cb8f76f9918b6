"""The table of spectra: one row per kernel block."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ntk_conditioning.tables import Column, Table

if TYPE_CHECKING:
    from ntk_conditioning.spectra.conditioning import Conditioning

#: Columns that say which grid point a row belongs to; shared by every table of cells.
GRID = (
    Column("kernel", pa.string(), "`empirical_ntk` or `empirical_nngp`, `infinite_ntk` or `nngp`"),
    Column("dataset", pa.string(), "name of the dataset"),
    Column("activation", pa.string(), "name of the activation; `linear` is the identity"),
    Column("depth", pa.int64(), "number L of hidden layers; 0 is the Gram matrix"),
)

SPECTRA = Table(
    name="spectra",
    description="One row per kernel block: extreme eigenvalues, rank and condition number.",
    keys=("kernel", "dataset", "activation", "depth", "seed", "block"),
    columns=(
        *GRID,
        Column(
            "seed", pa.int64(), "seed of the initialisation, of the blocks and of drawn samples"
        ),
        Column("block", pa.int64(), "number of the block within the seed, from 0"),
        Column(
            "width", pa.int64(), "hidden units per layer; missing at infinite width", nullable=True
        ),
        Column("dtype", pa.string(), "precision in which the kernel was formed"),
        Column("n", pa.int64(), "samples in the block"),
        Column("d", pa.int64(), "input dimension"),
        Column(
            "method",
            pa.string(),
            "`spectrum` (all eigenvalues), `factor` (singular values of a linear network's factor) "
            "or `extremes` (Lanczos iterations, for many samples)",
        ),
        Column("lambda_max", pa.float64(), "largest eigenvalue"),
        Column("lambda_max_error", pa.float64(), "bound on the solver's error of lambda_max"),
        Column(
            "lambda_min",
            pa.float64(),
            "smallest eigenvalue as computed; below the floor it is noise, and missing if only the "
            "extremes were computed",
            nullable=True,
        ),
        Column(
            "lambda_min_error",
            pa.float64(),
            "bound on the solver's error of lambda_min",
            nullable=True,
        ),
        Column(
            "resolution_floor", pa.float64(), "eigenvalues up to this one cannot be told from zero"
        ),
        Column("numerical_rank", pa.int64(), "eigenvalues above the floor"),
        Column(
            "kappa",
            pa.float64(),
            "condition number lambda_max / lambda_min; missing when lambda_min is not resolved",
            nullable=True,
        ),
        Column(
            "kappa_error",
            pa.float64(),
            "bound on the relative error of kappa that follows from those of both eigenvalues",
            nullable=True,
        ),
        Column(
            "kappa_nonzero", pa.float64(), "lambda_max over the smallest eigenvalue above the floor"
        ),
        Column(
            "effective_rank",
            pa.float64(),
            "exp of the entropy of the normalised eigenvalues; needs all of them",
            nullable=True,
        ),
        Column("reduced_precision", pa.bool_(), "true when the kernel is not float64"),
        Column(
            "eigenvalues",
            pa.list_(pa.float64()),
            "all eigenvalues, descending, where there are any and they are kept",
            nullable=True,
        ),
    ),
)


def spectra_row(result: Conditioning, *, eigenvalues: bool) -> dict[str, Any]:
    """Return the columns of a block that its conditioning gives, with or without eigenvalues."""
    row = {field.name: getattr(result, field.name) for field in fields(result)}
    kept = result.eigenvalues if eigenvalues else None
    return row | {"eigenvalues": None if kept is None else kept.tolist()}
