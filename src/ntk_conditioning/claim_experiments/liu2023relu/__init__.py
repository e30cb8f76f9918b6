"""The experiments of Liu & Hui 2023, "ReLU soothes the NTK condition number"."""

from __future__ import annotations

from ntk_conditioning.claim_experiments.liu2023relu import (
    conditioning,
    function_g,
    gradient_angles,
    limits,
    pairs,
    random_matrices,
    separation,
)

EXPERIMENTS = (
    conditioning.close_rows,
    conditioning.shallow,
    conditioning.inputs,
    function_g.properties,
    function_g.expansion,
    gradient_angles.observations,
    gradient_angles.expansion,
    gradient_angles.infinite_depth,
    limits.networks,
    pairs.two_samples,
    pairs.eigenvalues,
    random_matrices.gaussian_gram,
    random_matrices.lemmas,
    separation.close_pairs,
)
