"""The map of conditioning at infinite width."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from ntk_workflow.checks import Known, activation_names, names
from ntk_workflow.resources import EIGENVALUES, FLOP, PROGRAM, Config, Samples, Size

STUDY = "phase_study"


def checks(known: Known) -> Iterator[str]:
    """Yield a line for every mistake of the study."""
    study = known.config[STUDY]
    yield from names(known, STUDY)
    for index, name in enumerate(study["datasets"]):
        if known.shape(name)[1] == 1:
            problem = f"{name} has one feature, and on the sphere two places; remove it"
            yield f"{STUDY}.datasets[{index}]: {problem}"
    large = (study["large"] or {}).get("activations", ())
    yield from activation_names(known, large, f"{STUDY}.large.activations")


def measure_phase(w: Any, config: Config, samples: Samples) -> Size:
    """Draw samples of every shape and size."""
    study = config["phase_study"]
    study = {**study, **study["large"]} if w.part == "large" else study
    shapes = sum(map(len, filter(None, study["shapes"].values())))
    ratios, seconds = study["samples_per_dimension"], 0.0
    for n, ratio in product(study["samples"], ratios):
        seconds += spectra(n, len(study["depths"])) + 2 * FLOP * n**3 / ratio
    memory = PROGRAM + 8 * max(study["samples"]) ** 2 * (10 + 3 / min(ratios))
    return Size(len(study["seeds"]) * shapes * seconds, memory)


def measure_phase_of_data(w: Any, config: Config, samples: Samples) -> Size:
    """Compute the covariance of a dataset, and draw from it."""
    study, d = config["phase_study"], samples.d
    n, draws = max(study["samples"]), len(study["seeds"]) * len(study["activations"])
    seconds = 2 * FLOP * samples.n * d**2 + EIGENVALUES * d**3
    memory = PROGRAM + samples.bytes(3) + 8 * (10 * n**2 + 3 * d**2)
    return Size(seconds + draws * spectra(n, len(study["depths"])), memory)


def evaluate_laws(w: Any, config: Config, samples: Samples) -> Size:
    """Evaluate theory at every point of the map."""
    study = config["phase_study"]
    points = len(study["activations"]) * (1 + len(study["depths"])) * study["laws"][0]
    return Size(5e-4 * points * study["laws"][1], PROGRAM)


def spectra(n: int, depths: int) -> float:
    """Return the seconds of one draw's kernels: a table on all pairs, four spectra a depth."""
    return 2.5e-8 * depths * n**2 + 4 * (depths + 1) * (1e-3 + EIGENVALUES * n**3)
