"""The table of smallest angles: one row per search over all pairs of a dataset."""

from __future__ import annotations

import pyarrow as pa

from ntk_conditioning.tables import Column, Table
from ntk_conditioning.tables.spectra import GRID

ANGLES = Table(
    name="angles",
    description="Smallest angle between the model gradients of two samples of a dataset.",
    keys=("kernel", "dataset", "activation", "depth", "seed"),
    columns=(
        *GRID,
        Column(
            "seed",
            pa.int64(),
            "seed of the initialisation and of the choice of samples; missing where neither is "
            "random: at infinite width, of a whole dataset",
            nullable=True,
        ),
        Column(
            "width", pa.int64(), "hidden units per layer; missing at infinite width", nullable=True
        ),
        Column("dtype", pa.string(), "precision of the screening; the result is float64"),
        Column("n", pa.int64(), "samples among whose pairs the smallest angle was sought"),
        Column("d", pa.int64(), "input dimension"),
        Column("min_angle", pa.float64(), "smallest angle between two model gradients", "degrees"),
        Column(
            "min_angle_error",
            pa.float64(),
            "bound on the error of min_angle, from those of the kernel and rounding; missing at "
            "finite width, where none is known",
            "degrees",
            nullable=True,
        ),
        Column("i", pa.int64(), "first sample of the pair, from 0"),
        Column("j", pa.int64(), "second sample of the pair"),
        Column("duplicates", pa.int64(), "pairs of samples that are equal in every entry"),
        Column(
            "candidates", pa.int64(), "pairs close enough to the smallest to be computed accurately"
        ),
    ),
)
