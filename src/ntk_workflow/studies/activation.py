"""Kappa of every activation at infinite width."""

from types import SimpleNamespace
from typing import Any

from ntk_workflow.resources import START, Config, Samples, Size, compute_infinite_spectrum


def compute_activation_study(w: Any, config: Config, samples: Samples) -> Size:
    """Compute a row for each activation in one program."""
    config = {**config, **config["activation_study"], "samples": "all"}
    names = [SimpleNamespace(activation=name) for name in config["activations"]]
    rows = [compute_infinite_spectrum(name, config, samples) for name in names]
    seconds = START + sum(row.seconds - START for row in rows)
    return Size(seconds, max(row.memory for row in rows))
