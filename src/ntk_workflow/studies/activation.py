"""The grid of activations at infinite width."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from ntk_workflow.checks import blocks, names
from ntk_workflow.resources import Config, Samples, Size, compute_infinite_spectrum
from ntk_workflow.run import Run

STUDY = "activation_study"


def checks(run: Run) -> Iterator[str]:
    yield from names(run, STUDY)
    values = {"samples": "all", "balanced": False, **run.config[STUDY]}
    for name in values["datasets"]:
        yield from blocks(run, name, values, {key: f"{STUDY}.{key}" for key in values})


def compute_activation_study(w: Any, config: Config, samples: Samples) -> Size:
    """Compute a row for each activation in one program."""
    study = {**config, **config["activation_study"], "samples": "all"}
    names = [SimpleNamespace(activation=name) for name in study["activations"]]
    rows = [compute_infinite_spectrum(name, study, samples) for name in names]
    return Size(sum(row.seconds for row in rows), max(row.memory for row in rows))
