"""The table of spectra: one row per kernel block."""

from __future__ import annotations

import pyarrow as pa

from ntk_conditioning.tables import Column, Table

#: Columns that say which grid point a row belongs to; shared by every table of cells.
GRID = (
    Column("kernel", pa.string(), "`empirical_ntk`, `infinite_ntk` or `nngp`"),
    Column("dataset", pa.string(), "name in the catalogue"),
    Column("activation", pa.string(), "name of the activation; `linear` is the identity"),
    Column("depth", pa.int64(), "number L of hidden layers; 0 is the Gram matrix"),
)

SPECTRA = Table(
    name="spectra",
    description="One row per kernel block: extreme eigenvalues, rank and condition number.",
    keys=("kernel", "dataset", "activation", "depth", "seed", "block"),
    columns=(
        *GRID,
        Column("seed", pa.int64(), "seed of the initialisation and of the choice of blocks"),
        Column("block", pa.int64(), "number of the block within the seed, from 0"),
        Column(
            "width", pa.int64(), "hidden units per layer; missing at infinite width", nullable=True
        ),
        Column("dtype", pa.string(), "precision in which the kernel was formed"),
        Column("n", pa.int64(), "samples in the block"),
        Column("d", pa.int64(), "input dimension"),
        Column("lambda_max", pa.float64(), "largest eigenvalue"),
        Column(
            "lambda_min",
            pa.float64(),
            "smallest eigenvalue as computed; below the floor it is noise",
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
            "kappa_nonzero", pa.float64(), "lambda_max over the smallest eigenvalue above the floor"
        ),
        Column("effective_rank", pa.float64(), "exp of the entropy of the normalised eigenvalues"),
        Column("reduced_precision", pa.bool_(), "true when the kernel is not float64"),
        Column(
            "eigenvalues",
            pa.list_(pa.float64()),
            "all eigenvalues, descending, where config `eigenvalues` keeps them",
            nullable=True,
        ),
    ),
)
