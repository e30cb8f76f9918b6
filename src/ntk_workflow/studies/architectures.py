"""Kernels at initialisation of many kinds of networks."""

import math
from collections.abc import Iterator
from typing import Any

from ntk_conditioning.networks import architectures
from ntk_conditioning.networks.architectures import MODELS, kind_of
from ntk_workflow.checks import Known, enough, names, networks, own_network
from ntk_workflow.config import did_you_mean
from ntk_workflow.resources import (
    EIGENVALUES,
    FLOP,
    PROGRAM,
    TORCH_START,
    Config,
    Samples,
    Size,
    layers,
)
from ntk_workflow.training_resources import UNIT

STUDY = "architectures_study"


def checks(known: Known) -> Iterator[str]:
    """Yield a line for every mistake of the study."""
    study = known.config[STUDY]
    yield from names(known, STUDY, infinite=False)
    yield from networks(known, study, f"{STUDY}.")
    seeing = [name for name in study["models"] if kind_of(name).needs_images]
    for index, name in enumerate(study["datasets"]):
        yield from enough(known, study["samples"], name, f"{STUDY}.samples")
        if seeing and name in known.catalogue and not known.image(name):
            problem = f"{seeing[0]} needs images, {name} has none; remove one of them"
            yield f"{STUDY}.datasets[{index}]: {problem}"
    for name in set(study["overrides"]) - {*MODELS, *known.models}:
        advice = did_you_mean(name, study["models"])
        yield f"{STUDY}.overrides.{name}: unknown network {name!r}; {advice}"
    for index, name in enumerate(study["models"]):
        values = {**study, **study["overrides"].get(name, {}), "overrides": {}}
        values |= {"outputs": "scalar", "predict": False}
        for width in values["widths"] if name in known.models else ():
            place = f"{STUDY}.models[{index}]"
            yield from own_network(known, name, {**values, "width": width}, place)


#: Seconds to make a network and its kernel of few samples, and of each of its layers.
NETWORK, LAYER = 0.02, 3e-3


def measure_architectures(w: Any, config: Config, samples: Samples) -> Size:
    """Compute the kernels of all networks; those of the user's own count as fully connected."""
    study, places = config["architectures_study"], math.prod((samples.image or (1, 1))[:2])
    n, seconds, kept = study["samples"], TORCH_START, 0
    for name in study["models"]:
        model = {**study, **study["overrides"].get(name, {})}
        known = name if name in architectures.MODELS else "fc"
        pairs = {"conv": places, "conv_pool": places**2}.get(name, 1)
        for depth in model["depths"]:
            if name in study["infinite_width"]:
                seconds += pairs * sum(layers(s, n, depth, samples) for s in study["activations"])
            for width in model["widths"]:
                shape = {"d": samples.d, "width": width, "depth": depth, "outputs": 1}
                size = architectures.sizes(known, **shape, image=samples.image)
                one = FLOP * (6 * n * size.products + n**2 * size.weights) + n * UNIT * size.units
                one += NETWORK + LAYER * depth + EIGENVALUES * n**3
                seconds += len(study["activations"]) * len(study["seeds"]) * one
                kept = max(kept, 8 * n * (3 * size.units + size.weights) + 16 * size.weights)
    return Size(seconds, PROGRAM + samples.bytes(1) + min(kept, 10**9) + 4 * 8 * n**2)
