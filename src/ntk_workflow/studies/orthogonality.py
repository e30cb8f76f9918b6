"""Angles between the gradients of neurons, after liu2022transition."""

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

from ntk_workflow.checks import names
from ntk_workflow.config import did_you_mean
from ntk_workflow.resources import FLOP, PROGRAM, Config, Samples, Size
from ntk_workflow.run import Run

STUDY = "orthogonality_study"


def checks(run: Run, study: str = STUDY) -> Iterator[str]:
    """Yield a line for every mistake of the study, or of another whose networks' widths vary."""
    section, architectures = run.config[study], run.config["architectures"]
    yield from names(run, study, labels="the study needs two classes", infinite=False)
    for index, name in enumerate(section["architectures"]):
        at = f"{study}.architectures[{index}]"
        if name not in architectures:
            yield f"{at}: unknown architecture {name!r}; {did_you_mean(name, architectures)}"
        elif "m" not in architectures[name]["hidden"]:
            problem = f"no width of {name} is m, the one that varies; put m in"
            yield f"architectures.{name}.hidden: {problem}"


def measure_orthogonality(w: Any, config: Config, samples: Samples) -> Size:
    """Train networks of all widths, and multiply the gradients of each layer."""
    study, seconds, kept = config["orthogonality_study"], 0.0, 0
    n, scales, steps = study["samples"], len(study["label_scales"]), study["steps"]
    for hidden, weights in networks(w, config, study, samples):
        entries, widest = sum(width**2 for width in hidden), max(hidden)
        moment = n * (4 * FLOP * weights * widest + 1.5e-8 * entries) + 1e-7 * entries
        seconds += (1 + scales * len(steps)) * moment
        seconds += scales * max(steps) * (6 * FLOP * weights * n + 1e-4 * len(hidden))
        kept = max(kept, 8 * (5 * weights + 6 * widest**2 + 2 * samples.d * hidden[0]))
    seconds *= len(study["activations"]) * len(study["seeds"])
    return Size(seconds, PROGRAM + samples.bytes(2) + kept)


def networks(
    w: Any, config: Config, study: Config, samples: Samples
) -> Iterator[tuple[list[int], int]]:
    """Yield the hidden widths and the weights of every network, on the span of its samples."""
    architecture = config["architectures"][w.architecture]
    for m in study["widths"]:
        hidden = [m if width == "m" else width for width in architecture["hidden"]]
        widths = [min(study["samples"], samples.d), *hidden, 1]
        joined = combinations(widths, 2) if architecture.get("dense") else pairwise(widths)
        yield hidden, sum(i * k for i, k in joined)
