"""Kernels at infinite width beside the bounds of agarwal2021deep."""

from collections.abc import Iterator
from typing import Any

from ntk_workflow.checks import names, on_sphere
from ntk_workflow.resources import EIGENVALUES, PROGRAM, Config, Samples, Size
from ntk_workflow.run import Run

STUDY = "bounds_study"


def checks(run: Run) -> Iterator[str]:
    study = run.config[STUDY]
    yield from names(run, STUDY)
    for index, name in enumerate(study["datasets"]):
        if not on_sphere(run, name):
            problem = f"{name} is not on the unit sphere; take one with scaling unit_norm"
            yield f"{STUDY}.datasets[{index}]: {problem}"


def compute_bounds(w: Any, config: Config, samples: Samples) -> Size:
    """Take all pairs through the deepest network, and compute spectra at every depth."""
    study = config["bounds_study"]
    n = samples.n if study["samples"] == "all" else study["samples"]
    seconds = n**2 * 1e-7 * max(study["depths"]) + 2 * len(study["depths"]) * EIGENVALUES * n**3
    return Size(len(study["activations"]) * seconds, PROGRAM + samples.bytes(3) + 64 * n**2)
