"""Repairs by preconditioning, of samples and of kernels of infinite width."""

from dataclasses import replace
from typing import Any

from ntk_workflow.resources import EIGENVALUES, FLOP, PROGRAM, START, Config, Samples, Size, layers


def measure_repairs(w: Any, config: Config, samples: Samples) -> Size:
    """Compute kernels of samples of any norms, and their spectra."""
    study = config["repairs_study"]
    n, draws = study["samples"], len(study["seeds"]) * (4 + len(study["directions"]))
    seconds, samples = FLOP * n**2 * samples.d, replace(samples, one_norm=False)
    for name in study["activations"]:
        for depth in study["depths"]:
            seconds += layers(name, n, depth, samples) + 6 * EIGENVALUES * n**3
    return Size(START + draws * seconds, PROGRAM + samples.bytes(1) + 8 * 12 * n**2)
