"""The table of datasets: one row per dataset, or per draw of its samples."""

from __future__ import annotations

import pyarrow as pa

from ntk_conditioning.tables import Column, Table

DATASETS = Table(
    name="datasets",
    description="What a dataset's samples are like; a row per seed where every seed draws its own.",
    keys=("dataset", "seed"),
    columns=(
        Column("dataset", pa.string(), "name of the dataset"),
        Column(
            "seed",
            pa.int64(),
            "seed with which the samples were drawn; missing for a whole dataset",
            nullable=True,
        ),
        Column("n", pa.int64(), "samples"),
        Column("d", pa.int64(), "input dimension"),
        Column("classes", pa.int64(), "distinct labels; missing without labels", nullable=True),
        Column(
            "class_min",
            pa.int64(),
            "samples in the smallest class; missing without labels",
            nullable=True,
        ),
        Column(
            "class_max",
            pa.int64(),
            "samples in the largest class; missing without labels",
            nullable=True,
        ),
        Column("dtype", pa.string(), "type of the source's values"),
        Column("scaling", pa.string(), "how the values are scaled before any computation"),
        Column("min", pa.float64(), "smallest value of the source, in these samples"),
        Column("max", pa.float64(), "largest value of the source, in these samples"),
        Column("norm_min", pa.float64(), "smallest Euclidean norm of a scaled sample"),
        Column("norm_median", pa.float64(), "median norm of the scaled samples"),
        Column("norm_max", pa.float64(), "largest norm of a scaled sample"),
        Column("constant_columns", pa.int64(), "features with one value in all scaled samples"),
        Column(
            "gram_rank",
            pa.int64(),
            "numerical rank of the Gram matrix of the scaled samples: squared singular values of "
            "the samples above (max(n, d) · eps)² of the largest",
        ),
        Column(
            "duplicates",
            pa.int64(),
            "pairs of scaled samples that are equal in every entry, whose angle is 0",
        ),
        Column(
            "min_angle",
            pa.float64(),
            "smallest angle between two scaled samples, over the pairs that are not duplicates; "
            "missing if all samples are equal",
            "degrees",
            nullable=True,
        ),
        Column(
            "i", pa.int64(), "first sample of that pair, from 0, as in the archive", nullable=True
        ),
        Column("j", pa.int64(), "second sample of that pair", nullable=True),
        Column("sha256", pa.string(), "checksum of samples, labels and scaling"),
    ),
)
