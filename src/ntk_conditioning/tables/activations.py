"""The table of activations: one row each, as it is and normalised."""

from __future__ import annotations

import pyarrow as pa

from ntk_conditioning.tables import Column, Table

ACTIVATIONS = Table(
    name="activations",
    description=(
        "Constants of activations σ under z ~ N(0, 1), each as it is and normalised to mean 0 and "
        "variance 1. Coefficients, cosines and lengths are of gain · σ, with E (gain σ)² = 1, as "
        "layers of a network have it."
    ),
    keys=("activation",),
    columns=(
        Column("activation", pa.string(), "its name"),
        Column("base", pa.string(), "the activation that is normalised, or itself"),
        Column("normalized", pa.bool_(), "whether it is the normalised variant (σ - E σ) / std σ"),
        Column("mean", pa.float64(), "E σ(z)"),
        Column("gain", pa.float64(), "1 / sqrt(E σ(z)²)"),
        Column("deviation", pa.float64(), "std σ(z): what normalising divides by"),
        Column("kinks", pa.list_(pa.float64()), "points at which the derivative jumps"),
        Column("kink", pa.float64(), "c of a shifted ReLU λ (max(z - c, 0) + b)", nullable=True),
        Column("scale", pa.float64(), "λ of a shifted ReLU", nullable=True),
        Column("offset", pa.float64(), "b of a shifted ReLU", nullable=True),
        Column(
            "coefficients",
            pa.list_(pa.float64()),
            "Hermite coefficients a_0, a_1, … of gain · σ: a_k = E gain σ(z) h_k(z), h_k "
            "orthonormal",
        ),
        Column("coefficient_error", pa.float64(), "bound on the error of every coefficient"),
        Column("tail", pa.float64(), "1 - Σ a_k² over these coefficients, right to 1e-15"),
        Column("a_1", pa.float64(), "the second of the coefficients, E gain σ(z) z"),
        Column(
            "non_linearity",
            pa.float64(),
            "μ = 1 - a_1² of the normalised variant (agarwal2021deep, Definition 2)",
        ),
        Column(
            "non_affinity", pa.float64(), "μ̃ = 1 - a_0² - a_1² (agarwal2021deep, Definition 29)"
        ),
        Column("non_linearity_error", pa.float64(), "bound on the errors of μ and μ̃"),
        Column(
            "fixed_point",
            pa.float64(),
            "smallest ρ in [0, 1] with σ̂(ρ) = ρ, σ̂ the dual activation Σ a_k² ρ^k: the cosine "
            "that inputs of norm 1 tend to with depth",
        ),
        Column("fixed_point_error", pa.float64(), "bound on its error; 0 where it is 0 or 1"),
        Column("slope_at_fixed_point", pa.float64(), "σ̂' there: the factor per layer of the rest"),
        Column("slope_at_one", pa.float64(), "σ̂'(1) = E σ'² / E σ²"),
        Column(
            "length_map_slope",
            pa.float64(),
            "derivative at 1 of γ ↦ E (gain σ(√γ z))²: the factor per layer of small deviations of "
            "the squared norm from 1",
        ),
    ),
)
