"""The table of exponents with which quantities fall with the width."""

from __future__ import annotations

import pyarrow as pa

from ntk_conditioning.tables import Column, Table

WIDTH_SLOPES = Table(
    name="width_slopes",
    description=(
        "Exponents a of quantities ~ width^a, by least squares on logarithms, a fit for each seed."
    ),
    keys=(
        "study",
        "quantity",
        "dataset",
        "architecture",
        "activation",
        "layer",
        "trained",
        "radius",
        "seed",
    ),
    columns=(
        Column("study", pa.string(), "the table: `orthogonality` or `linearity`"),
        Column("quantity", pa.string(), "its column"),
        Column("dataset", pa.string(), "name of the dataset"),
        Column("architecture", pa.string(), "name of the architecture"),
        Column("activation", pa.string(), "name of the activation"),
        Column("layer", pa.int64(), "number of the hidden layer; 0 of the whole network"),
        Column("trained", pa.bool_(), "whether after the training"),
        Column("radius", pa.float64(), "radius of the ball; 0 of what has none"),
        Column("seed", pa.int64(), "seed of the initialisation"),
        Column("slope", pa.float64(), "exponent a; theory says -1/2 or 0"),
        Column("points", pa.int64(), "widths that were fitted"),
        Column("width_min", pa.int64(), "smallest of them"),
        Column("width_max", pa.int64(), "largest of them"),
        Column("falls", pa.bool_(), "whether each width has a smaller value than the one before"),
    ),
)
