"""Angles between the gradients of neurons, after liu2022transition."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ntk_workflow.checks import Known, enough, names
from ntk_workflow.config import did_you_mean
from ntk_workflow.resources import FLOP, PROGRAM, TORCH_START, Config, Samples, Size

STUDY = "orthogonality_study"


def checks(known: Known, study: str = STUDY) -> Iterator[str]:
    """Yield a line for every mistake of the study, or of another whose networks' widths vary."""
    section, architectures = known.config[study], known.config["architectures"]
    yield from names(known, study, labels="the study needs two classes", infinite=False)
    for index, name in enumerate(section["architectures"]):
        place = f"{study}.architectures[{index}]"
        if name not in architectures:
            yield f"{place}: unknown architecture {name!r}; {did_you_mean(name, architectures)}"
        elif "m" not in architectures[name]["hidden"]:
            problem = f"no width of {name} is m, the one that varies; put m in"
            yield f"architectures.{name}.hidden: {problem}"
    for name in section["datasets"]:
        yield from enough(known, section["samples"], name, f"{study}.samples")


#: Seconds on an entry of a matrix of cosines, which only reads memory, and of its norm.
COSINE, NORM = 1.5e-8, 1e-7


def measure_orthogonality(w: Any, config: Config, samples: Samples) -> Size:
    """Train networks of all widths, and multiply the gradients of each layer."""
    study, seconds, kept = config["orthogonality_study"], 0.0, 0
    n, scales = study["samples"], len(study["label_scales"])
    moments, steps = 1 + scales * len(study["steps"]), max(study["steps"])
    for hidden, weights in networks(study, config["architectures"][w.architecture], samples):
        products = sum(2 * i**2 * k + 2 * i * k**2 for i, k in pairwise(hidden))
        entries = sum(width**2 for width in hidden)
        seconds += moments * (n * (FLOP * products + COSINE * entries) + NORM * entries)
        seconds += scales * steps * descent(weights, n, layers=len(hidden))
        kept = max(kept, 8 * (5 * weights + 6 * max(hidden) ** 2 + 2 * samples.d * hidden[0]))
    repeated = len(study["activations"]) * len(study["seeds"])
    return Size(TORCH_START + repeated * seconds, PROGRAM + samples.bytes(2) + kept)


def networks(
    study: Config, architecture: Config, samples: Samples
) -> Iterator[tuple[list[int], int]]:
    """Yield the hidden widths and the weights of every network, on the span of its samples."""
    dense, inputs = architecture.get("dense", False), min(study["samples"], samples.d)
    for m in study["widths"]:
        hidden = [m if width == "m" else width for width in architecture["hidden"]]
        before = [sum(hidden[: k + 1]) + inputs if dense else it for k, it in enumerate(hidden)]
        after = [*hidden[1:], 1]
        yield hidden, inputs * hidden[0] + sum(i * k for i, k in zip(before, after, strict=True))


def descent(weights: int, n: int, *, layers: int) -> float:
    """Return the seconds of a step of gradient descent on n samples."""
    return 6 * FLOP * weights * n + 1e-4 * layers
