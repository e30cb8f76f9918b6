"""The table of the precision study: one row per problem and recipe for its condition number."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from ntk_conditioning.tables import Column, Table

PRECISION = Table(
    name="precision",
    description=(
        "Condition numbers from float arithmetic beside references in 60 digits, for small "
        "problems of growing kappa."
    ),
    keys=("kernel", "activation", "depth", "seed", "delta", "method"),
    columns=(
        Column("kernel", pa.string(), "`empirical_ntk` or `infinite_ntk`"),
        Column("activation", pa.string(), "`relu` or `linear`"),
        Column("depth", pa.int64(), "number L of hidden layers; 0 is the Gram matrix"),
        Column("seed", pa.int64(), "seed of the samples and of the initialisation"),
        Column(
            "delta",
            pa.float64(),
            "distance of the first two samples, in units of a typical sample's norm",
        ),
        Column(
            "method",
            pa.string(),
            "recipe: `float32_general` (float32 kernel, solver for general matrices, ratio "
            "whatever its sign), `float32_symmetric` (the same with a symmetric solver), `float32` "
            "(float32 kernel, float64 symmetric solver, floor), `float64` (the default), "
            "`extremes` (Cholesky and Lanczos, the default for large kernels), `factor` (singular "
            "values of a linear network's factor); at infinite width `cosine_float32` and `cosine` "
            "(arccosines of cosines, ratio whatever its sign), `deficits` (the default)",
        ),
        Column(
            "width", pa.int64(), "hidden units per layer; missing at infinite width", nullable=True
        ),
        Column("n", pa.int64(), "samples"),
        Column("d", pa.int64(), "input dimension"),
        Column("kappa_reference", pa.float64(), "condition number in 60 digits, rounded"),
        Column(
            "ratio",
            pa.float64(),
            "lambda_max / lambda_min as the recipe computes them; may be negative or infinite",
        ),
        Column(
            "kappa",
            pa.float64(),
            "the ratio where the recipe reports it; missing where it says that lambda_min is not "
            "resolved",
            nullable=True,
        ),
        Column("resolved", pa.bool_(), "whether the recipe reports the ratio"),
        Column("relative_error", pa.float64(), "abs(ratio / kappa_reference - 1)"),
        Column(
            "floor_kappa",
            pa.float64(),
            "largest kappa that the recipe's precision resolves: 1 / (n eps), and "
            "1 / (max(n, p) eps)² for a factor with p columns",
        ),
    ),
)


def reach(kappa: ArrayLike, error: ArrayLike, *, tolerance: float) -> float:
    """Return the largest ``kappa`` up to which no ``error`` exceeds ``tolerance``, or NaN.

    >>> reach([1e2, 1e8, 1e4], [0.0, 0.5, 0.001], tolerance=0.01)
    10000.0
    """
    kappa, error = np.asarray(kappa, dtype=np.float64), np.asarray(error, dtype=np.float64)
    order = np.argsort(kappa)
    good = np.logical_and.accumulate(error[order] <= tolerance)
    return float(kappa[order][good].max(initial=-np.inf)) if good.any() else float("nan")
