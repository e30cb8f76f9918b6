"""The expansion of networks in their weights, over width."""

from collections.abc import Iterator
from typing import Any

from ntk_workflow.resources import FLOP, PROGRAM, Config, Samples, Size
from ntk_workflow.run import Run
from ntk_workflow.studies import orthogonality


def checks(run: Run) -> Iterator[str]:
    yield from orthogonality.checks(run, "linearity_study")
    samples, expansions = (run.config["linearity_study"][key] for key in ("samples", "expansions"))
    if expansions > samples:
        problem = f"{expansions} is more than the {samples} samples of the study; take fewer"
        yield f"linearity_study.expansions: {problem}"


def measure_linearity(w: Any, config: Config, samples: Samples) -> Size:
    """Train networks of all widths, and compute their expansions."""
    study, seconds, kept = config["linearity_study"], 0.0, 0
    searched = 4 * len(study["radii"]) * (study["directions"] + 60)
    for hidden, weights in orthogonality.networks(w, config, study, samples):
        # a hundred products with a Hessian, and searches in balls
        seconds += FLOP * study["expansions"] * 2 * weights * (70_000 + 6 * searched)
        seconds += study["steps"] * (6 * FLOP * weights * study["samples"] + 1e-4 * len(hidden))
        kept = max(kept, 8 * (30 * weights + 2 * samples.d * sum(hidden)))
    seconds *= len(study["activations"]) * len(study["seeds"])
    return Size(seconds, PROGRAM + samples.bytes(2) + kept)
