"""Kernels of infinite width against the bounds of agarwal2021deep."""

from typing import Any

from ntk_workflow.resources import ANGLE, EIGENVALUES, FLOP, PROGRAM, START, Config, Samples, Size


def compute_bounds(w: Any, config: Config, samples: Samples) -> Size:
    """Take all pairs through the deepest network, and compute spectra at every depth."""
    study = config["bounds_study"]
    n = samples.n if study["samples"] == "all" else study["samples"]
    # a layer on a pair of samples of one norm takes as long as an angle
    seconds = n**2 / 2 * ANGLE * (1 + max(study["depths"]))
    seconds += 2 * len(study["depths"]) * EIGENVALUES * n**3
    seconds = START + len(study["activations"]) * seconds + 3 * FLOP * n**2 * samples.d
    return Size(seconds, PROGRAM + samples.bytes(3) + 8 * 8 * n**2)
