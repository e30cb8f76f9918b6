"""Condition numbers of kernels on more and more samples of a dataset."""

from collections.abc import Iterator
from typing import Any

from ntk_conditioning.memory import kernel_bytes
from ntk_workflow.checks import enough, names
from ntk_workflow.resources import EIGENVALUES, FLOP, PROGRAM, Config, Samples, Size
from ntk_workflow.run import Run

STUDY = "whole_dataset_study"


def checks(run: Run) -> Iterator[str]:
    study = run.config[STUDY]
    yield from names(run, STUDY, infinite=False)
    for name in study["datasets"]:
        yield from enough(run, study["bounded"], name, f"{STUDY}.bounded")


def measure_whole_dataset(w: Any, config: Config, samples: Samples) -> Size:
    """Compute kernels and their extreme eigenvalues, and 14 products with larger ones."""
    study, d, seconds = config[STUDY], samples.d, 0.0
    width, largest = study["width"], max(study["samples"])
    for depth in study["depths"]:
        numbers = d + 2 * depth * width
        for n in study["samples"]:
            seconds += FLOP * n * n * (numbers + n) + min(n, 2048) ** 3 * EIGENVALUES
        weights = d * width + depth * width**2
        seconds += sum(14 * 12 * FLOP * n * weights for n in study["bounded"])
    numbers = d + 2 * max(study["depths"]) * width
    kept = kernel_bytes(largest, itemsize=8, row_bytes=8 * numbers, copies=2) + samples.bytes(3)
    return Size(len(study["seeds"]) * seconds, PROGRAM + 10**9 + kept)
