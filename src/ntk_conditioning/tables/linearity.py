"""The table of Hessians, quadratic terms and changes of the NTK, after liu2022transition."""

from __future__ import annotations

import pyarrow as pa

from ntk_conditioning.tables import Column, Table
from ntk_conditioning.tables.orthogonality import NETWORK


def _found(name: str, way: str) -> Column:
    return Column(name, pa.float64(), f"the largest found {way}")


LINEARITY = Table(
    name="linearity",
    description=(
        "How far a network is from linear in its weights: the Hessian's norm, the largest "
        "quadratic term of the expansion found in a ball about the initialisation, and the change "
        "of the NTK in training (liu2022transition, Theorems 1 and 4); at several samples the "
        "largest."
    ),
    keys=("dataset", "architecture", "activation", "width", "radius", "seed"),
    columns=(
        *NETWORK,
        Column("radius", pa.float64(), "radius R of the ball"),
        Column("seed", pa.int64(), "seed of the initialisation"),
        Column("samples", pa.int64(), "samples at which the network is expanded"),
        Column("d", pa.int64(), "input dimension"),
        Column("parameters", pa.int64(), "weights that the samples reach"),
        Column("hessian_norm", pa.float64(), "spectral norm of the Hessian at initialisation"),
        Column("hessian_residual", pa.float64(), "bound on the distance to an eigenvalue"),
        Column("hessian_norm_fixed", pa.float64(), "the norm with the last layer fixed"),
        Column("quadratic_term", pa.float64(), "largest |quadratic term| found in the ball"),
        _found("quadratic_random", "in random directions"),
        _found("quadratic_gradient", "along the gradient"),
        _found("quadratic_eigenvector", "along the Hessian's eigenvector"),
        _found("quadratic_ascent", "by ascent"),
        Column("quadratic_term_fixed", pa.float64(), "largest found with the last layer fixed"),
        Column(
            "bound",
            pa.float64(),
            "Theorem 1's bound on quadratic_term; missing beyond two layers",
            nullable=True,
        ),
        Column(
            "bound_fixed",
            pa.float64(),
            "Theorem 4's bound on quadratic_term_fixed, with R²; missing for DenseNets and "
            "activations with kinks",
            nullable=True,
        ),
        Column("largest_weight", pa.float64(), "largest absolute weight of the last layer"),
        Column("steps", pa.int64(), "steps of gradient descent, on all samples of the study"),
        Column("loss_before", pa.float64(), "1/2 sum (f - y)², of labels -1 and 1"),
        Column("loss_after", pa.float64(), "the same after training"),
        Column("kernel_change", pa.float64(), "|K(w_T) - K(w_0)| / |K(w_0)|, spectral norms"),
        Column("distance", pa.float64(), "|w_T - w_0|"),
    ),
)
