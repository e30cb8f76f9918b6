"""Numerical experiments on the papers' theorems, lemmas and misprints."""

from typing import Any

from ntk_workflow.resources import PROGRAM, Config, Samples, Size


def run_claim_experiments(w: Any, config: Config, samples: Samples) -> Size:
    """Draw networks of all widths, depths and seeds."""
    study = config["claim_experiments"]
    weights = sum(width**2 for width in study["widths"]) * sum(study["depths"])
    return Size(28 + 1e-6 * weights * len(study["seeds"]), PROGRAM + 64 * weights)
