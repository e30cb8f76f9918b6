"""Repairs by preconditioning, of samples and of kernels of infinite width."""

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

from ntk_workflow.checks import names
from ntk_workflow.resources import EIGENVALUES, PROGRAM, Config, Samples, Size, layers
from ntk_workflow.run import Run

STUDY = "repairs_study"


def checks(run: Run) -> Iterator[str]:
    study = run.config[STUDY]
    yield from names(run, STUDY, labels="predicted steps need them", infinite=False)
    for name in study["datasets"]:
        most = min(study["samples"], run.shape(name)[1] or math.inf) - 1
        if max(study["directions"]) > most:
            yield f"{STUDY}.directions: {name} has at most {most} top directions; take fewer"


def measure_repairs(w: Any, config: Config, samples: Samples) -> Size:
    """Compute kernels of samples of any norms, and their spectra."""
    study, n = config["repairs_study"], config["repairs_study"]["samples"]
    seconds = 0.0
    for name, depth in product(study["activations"], study["depths"]):
        seconds += layers(name, n, depth) + 6 * EIGENVALUES * n**3
    draws = len(study["seeds"]) * (4 + len(study["directions"]))
    return Size(draws * seconds, PROGRAM + samples.bytes(1) + 96 * n**2)
