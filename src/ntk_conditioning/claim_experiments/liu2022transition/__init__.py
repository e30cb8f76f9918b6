"""The experiments of Liu, Zhu & Belkin 2022, "Transition to linearity of wide neural networks"."""

from __future__ import annotations

from ntk_conditioning.claim_experiments.liu2022transition import (
    assemblies,
    gaussian_weights,
    hessians,
    jacobians,
    normals,
)

EXPERIMENTS = (
    assemblies.theorem_1,
    assemblies.tightness,
    assemblies.corollary_1,
    gaussian_weights.lemma_2,
    gaussian_weights.hessian,
    gaussian_weights.rate,
    normals.remark_4,
    normals.equation_12,
    normals.theorem_3,
    normals.bottleneck,
    normals.equation_18,
    normals.equation_22,
    normals.corollary_2,
    jacobians.lemma_3,
    jacobians.lemma_4,
    jacobians.lengths,
    jacobians.cross_term,
    hessians.theorem_4,
    hessians.rates,
)
