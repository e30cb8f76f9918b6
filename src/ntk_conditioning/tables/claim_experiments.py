"""The table of numerical experiments that decide what papers state."""

from __future__ import annotations

import pyarrow as pa

from ntk_conditioning.tables import Column, Table

CLAIM_EXPERIMENTS = Table(
    name="claim_experiments",
    description=(
        "What the numerical experiments on the papers' statements measured, beside what is "
        "printed; see `claims` for the verdicts."
    ),
    keys=("paper", "statement", "activation", "depth", "width", "n", "d", "seed", "at"),
    columns=(
        Column("paper", pa.string(), "the paper"),
        Column("statement", pa.string(), "what was measured"),
        Column("activation", pa.string(), "name of the activation, if one matters", nullable=True),
        Column("depth", pa.int64(), "number L of hidden layers", nullable=True),
        Column(
            "width",
            pa.int64(),
            "hidden units per layer, or rows of a random matrix; missing in the infinite limit",
            nullable=True,
        ),
        Column("n", pa.int64(), "samples", nullable=True),
        Column("d", pa.int64(), "input dimension", nullable=True),
        Column("seed", pa.int64(), "seed of samples and networks", nullable=True),
        Column("at", pa.float64(), "angle, distance or ratio that varies", nullable=True),
        Column("value", pa.float64(), "what was measured"),
        Column("printed", pa.float64(), "what the paper prints", nullable=True),
        Column(
            "corrected",
            pa.float64(),
            "what is right where the paper contradicts itself or errs",
            nullable=True,
        ),
    ),
)
