"""The expansion of networks in their weights, over width."""

from collections.abc import Iterator
from typing import Any

from ntk_workflow.checks import Known
from ntk_workflow.resources import FLOP, PROGRAM, TORCH_START, Config, Samples, Size
from ntk_workflow.studies import orthogonality

STUDY = "linearity_study"


def checks(known: Known) -> Iterator[str]:
    """Yield a line for every mistake of the study."""
    yield from orthogonality.checks(known, STUDY)
    samples, expansions = (known.config[STUDY][key] for key in ("samples", "expansions"))
    if expansions > samples:
        excess = f"{expansions} is more than the {samples} samples of the study"
        yield f"{STUDY}.expansions: {excess}; take fewer"


#: Products with a Hessian until its norm has converged, operations of one on a weight, and vectors
#: that it keeps; steps of an ascent in a ball.
PRODUCTS, PRODUCT, VECTORS, CLIMBS = 100, 700, 24, 60


def measure_linearity(w: Any, config: Config, samples: Samples) -> Size:
    """Train networks of all widths, and compute their expansions."""
    study, seconds, kept = config["linearity_study"], 0.0, 0
    searched = 4 * len(study["radii"]) * (study["directions"] + CLIMBS)
    for hidden, weights in orthogonality.networks(
        study, config["architectures"][w.architecture], samples
    ):
        expansion = 2 * weights * (PRODUCTS * PRODUCT + 6 * searched)
        seconds += FLOP * study["expansions"] * expansion
        seconds += study["steps"] * orthogonality.descent(
            weights, study["samples"], layers=len(hidden)
        )
        kept = max(kept, 8 * ((VECTORS + 5) * weights + 2 * samples.d * sum(hidden)))
    repeated = len(study["activations"]) * len(study["seeds"])
    return Size(TORCH_START + repeated * seconds, PROGRAM + samples.bytes(2) + kept)
