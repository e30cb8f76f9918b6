"""The table of kernels on the unit sphere beside the bounds of agarwal2021deep."""

from __future__ import annotations

import pyarrow as pa

from ntk_conditioning.tables import Column, Table


def _bound(name: str, meaning: str) -> Column:
    return Column(name, pa.float64(), meaning, nullable=True)


def _depth(name: str, meaning: str) -> Column:
    return Column(name, pa.int64(), meaning, nullable=True)


BOUNDS = Table(
    name="bounds",
    description=(
        "Kernels of infinite width of samples on the unit sphere, over their diagonal, beside what "
        "agarwal2021deep proves of them; a bound is missing where its theorem says nothing."
    ),
    keys=("dataset", "activation", "kernel", "depth"),
    columns=(
        Column("dataset", pa.string(), "name of the dataset"),
        Column("activation", pa.string(), "name of the activation, of unit variance by its gain"),
        Column("kernel", pa.string(), "`nngp`, the top layer's K, or `infinite_ntk`"),
        Column("depth", pa.int64(), "number L of hidden layers"),
        Column("n", pa.int64(), "samples"),
        Column("d", pa.int64(), "input dimension"),
        Column("delta_a", pa.float64(), "1 - max |x_i x_j|, the separation of Assumption A"),
        _bound("delta_b", "smallest eigenvalue of the Gram matrix (Assumption B), if not 0"),
        Column("mean", pa.float64(), "absolute mean of the activation; 0 if it is normalised"),
        Column("mu", pa.float64(), "coefficient of non-linearity, of the activation less its mean"),
        Column("mu_tilde", pa.float64(), "coefficient of non-affinity"),
        Column("dual_slope", pa.float64(), "slope of the dual activation at 1"),
        Column("fixed_point", pa.float64(), "the dual's smallest fixed point in [0, 1]"),
        _depth("l_0", "L_0 of delta_a, after which correlations are at most 1/2"),
        _depth("l_0_b", "L_0 of delta_b"),
        _depth("l_kappa", "L_1 (`nngp`) or L_2 (`infinite_ntk`), from which kappa is bounded"),
        Column("correlation_max", pa.float64(), "largest |K_ij| / K_11, i != j"),
        Column(
            "correlation_error",
            pa.float64(),
            "bound on its error by quadrature and rounding",
        ),
        _bound("correlation_bound", "bound on it, Theorems 3 and 5"),
        Column("lambda_min", pa.float64(), "smallest eigenvalue, over K_11"),
        Column("lambda_max", pa.float64(), "largest eigenvalue, over K_11"),
        Column("lambda_error", pa.float64(), "bound on the error of both"),
        _bound("lambda_min_bound", "bound on lambda_min from below, Theorems 7 and 9"),
        _bound("kappa", "condition number; missing where lambda_min is not above its error"),
        _bound("excess", "kappa - 1, with the digits that kappa itself has lost"),
        _bound("excess_error", "bound on the error of the excess"),
        _bound("excess_bound_a", "bound on the excess under Assumption A, Corollaries 4 and 6"),
        _bound("excess_bound_a_proof", "the smaller bound that the proof of those gives"),
        _bound("excess_bound_b", "bound on the excess under Assumption B, Corollaries 8 and 10"),
        _bound("distance", "largest |K_ij - fixed_point|, i != j, of `nngp`"),
        _bound("distance_error", "bound on its error, of entries and of the fixed point"),
        _bound("distance_bound", "bound on it where the mean is not 0, Lemmas 35 and 36"),
        _bound(
            "correlation_rate",
            "logarithm of a layer's factor on correlation_max, since the depth before; missing if "
            "that was above 1/2, or this is below 100 times its error",
        ),
        _bound("excess_rate", "the same of the excess"),
    ),
)
