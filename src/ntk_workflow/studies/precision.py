"""Kappa in float32 and float64 against references in many digits."""

from typing import Any

from ntk_workflow.resources import PROGRAM, Config, Samples, Size


def measure_precision(w: Any, config: Config, samples: Samples) -> Size:
    """Compute references in many digits, a quarter of a second each for 16 samples."""
    study = config["precision_study"]
    problems = len(study["seeds"]) * len(study["depths"]) * study["points"]
    return Size(6e-5 * problems * study["samples"] ** 3, PROGRAM)
