"""The map of conditioning at infinite width."""

from collections.abc import Iterator
from typing import Any

from ntk_workflow.checks import activation_names, names
from ntk_workflow.resources import EIGENVALUES, FLOP, PROGRAM, Config, Samples, Size
from ntk_workflow.run import Run

STUDY = "phase_study"


def rows(study: Config) -> list[tuple[str, str]]:
    """Return what the rows are named by: random samples of a map and larger ones, and datasets."""
    parts = {"map": study["activations"], "data": study["datasets"]}
    if study["large"]:
        parts["large"] = study["large"].get("activations", study["activations"])
    return [(part, name) for part, names in parts.items() for name in names]


def checks(run: Run) -> Iterator[str]:
    study = run.config[STUDY]
    yield from names(run, STUDY, drawn=False)
    large = (study["large"] or {}).get("activations", ())
    yield from activation_names(run, large, f"{STUDY}.large.activations")


def measure_phase(w: Any, config: Config, samples: Samples) -> Size:
    """Draw samples of every shape and size, and compute their kernels at every depth."""
    study = config["phase_study"]
    study = {**study, **study["large"]} if w.part == "large" else study
    ratios, shapes = study["samples_per_dimension"], filter(None, study["shapes"].values())
    draws = len(study["seeds"]) * sum(map(len, shapes)) * len(ratios)
    seconds = sum(draw(n, study) for n in study["samples"])
    memory = 8 * max(study["samples"]) ** 2 * (10 + 3 / min(ratios))
    return Size(draws * seconds, PROGRAM + memory)


def measure_phase_of_data(w: Any, config: Config, samples: Samples) -> Size:
    """Compute the covariance of a dataset, and draw from it."""
    study, d, n = config["phase_study"], samples.d, max(config["phase_study"]["samples"])
    seconds = len(study["seeds"]) * len(study["activations"]) * draw(n, study)
    seconds += 2 * FLOP * samples.n * d**2 + EIGENVALUES * d**3
    return Size(seconds, PROGRAM + samples.bytes(3) + 80 * n**2 + 24 * d**2)


def evaluate_laws(w: Any, config: Config, samples: Samples) -> Size:
    """Evaluate theory at every point of the map."""
    study, (points, others) = config["phase_study"], config["phase_study"]["laws"]
    grids = len(study["activations"]) * (1 + len(study["depths"]))
    return Size(5e-4 * grids * points * others, PROGRAM)


def draw(n: int, study: Config) -> float:
    """Return the seconds of the kernels of n samples: four spectra a depth."""
    return 4 * (len(study["depths"]) + 1) * (1e-3 + 1e-8 * n**2 + 2 * EIGENVALUES * n**3)
