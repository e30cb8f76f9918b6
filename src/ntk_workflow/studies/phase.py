"""The map of conditioning at infinite width."""

from collections.abc import Iterator
from typing import Any

from ntk_workflow.checks import Known, activation_names, names
from ntk_workflow.resources import EIGENVALUES, FLOP, PROGRAM, START, Config, Samples, Size

STUDY = "phase_study"


def rows(study: Config) -> list[tuple[str, str]]:
    """Return what the rows are named by: random samples of a map and larger ones, and datasets."""
    parts = {"map": study["activations"], "data": study["datasets"]}
    if study["large"]:
        parts["large"] = study["large"].get("activations", study["activations"])
    return [(part, name) for part, names in parts.items() for name in names]


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
    draws = len(study["seeds"]) * sum(map(len, filter(None, study["shapes"].values())))
    seconds, depths, ratios = START, len(study["depths"]), study["samples_per_dimension"]
    for n in study["samples"]:
        for ratio in ratios:
            seconds += draws * (_placed(n, depths) + 2 * FLOP * n**3 / ratio)
    n = max(study["samples"])
    return Size(seconds, PROGRAM + 8 * n**2 * (10 + 3 / min(ratios)))


def measure_phase_of_data(w: Any, config: Config, samples: Samples) -> Size:
    """Compute the covariance of a dataset, and draw from it."""
    study, d = config["phase_study"], samples.d
    n, draws = max(study["samples"]), len(study["seeds"]) * len(study["activations"])
    seconds = 2 * FLOP * samples.n * d**2 + EIGENVALUES * d**3
    memory = PROGRAM + samples.bytes(3) + 8 * (10 * n**2 + 3 * d**2)
    return Size(START + seconds + draws * _placed(n, len(study["depths"])), memory)


def evaluate_laws(w: Any, config: Config, samples: Samples) -> Size:
    """Evaluate theory at every point of the map."""
    study = config["phase_study"]
    points = len(study["activations"]) * (1 + len(study["depths"])) * study["laws"][0]
    return Size(START + 5e-4 * points * study["laws"][1], PROGRAM)


def _placed(n: int, depths: int) -> float:
    """Return the seconds of the kernels of one draw: a table on all pairs, 4 spectra a depth."""
    return 2.5e-8 * depths * n**2 + 4 * (depths + 1) * (1e-3 + EIGENVALUES * n**3)
