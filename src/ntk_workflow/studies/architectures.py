"""Kernels at initialisation of many kinds of networks."""

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

from ntk_conditioning.networks import architectures
from ntk_conditioning.networks.architectures import MODELS, kind_of
from ntk_workflow.checks import images, names, networks
from ntk_workflow.config import did_you_mean
from ntk_workflow.resources import PROGRAM, Config, Samples, Size, gradient_kernel, layers
from ntk_workflow.run import Run

STUDY = "architectures_study"


def checks(run: Run) -> Iterator[str]:
    study = run.config[STUDY]
    yield from names(run, STUDY, infinite=False)
    yield from networks(run, study, f"{STUDY}.")
    yield from images(run, study, f"{STUDY}.")
    for name in study["overrides"].keys() - {*MODELS, *run.models}:
        advice = did_you_mean(name, study["models"])
        yield f"{STUDY}.overrides.{name}: unknown network {name!r}; {advice}"


def measure_architectures(w: Any, config: Config, samples: Samples) -> Size:
    """Compute the kernels of all networks; the user's count as fully connected."""
    study, seconds, kept = config["architectures_study"], 0.0, 0
    n, networks = study["samples"], len(study["activations"]) * len(study["seeds"])
    places = math.prod((samples.image or (1, 1))[:2])
    for model in study["models"]:
        values, kind = {**study, **study["overrides"].get(model, {})}, kind_of(model)
        pairs = places ** (1 + kind.pool) if kind.family == "conv" else 1
        for depth, width in product(values["depths"], values["widths"]):
            shape = {"d": samples.d, "width": width, "depth": depth, "outputs": 1}
            name = model if model in MODELS else "fc"
            size = architectures.sizes(name, **shape, image=samples.image)
            seconds += networks * (0.03 + gradient_kernel(name, size, n, 1))
            if model in study["infinite_width"]:
                seconds += pairs * sum(layers(sigma, n, depth) for sigma in study["activations"])
            kept = max(kept, 8 * n * (3 * size.units + size.weights) + 16 * size.weights)
    return Size(seconds, PROGRAM + samples.bytes(1) + min(kept, 10**9) + 32 * n**2)


def architecture_options(config: Config, image: tuple[int, int, int] | None) -> list[str]:
    """Return the networks of the study as options, with a sample's ``image`` if it has one."""
    study = config[STUDY]
    options = ["--image", *map(str, image)] if image else []
    for name in study["models"]:
        network = {**study, **study["overrides"].get(name, {})}
        for width in network["widths"]:
            options += ["--network", name, *map(str, [width, *network["depths"]])]
        if name in config["models"]:
            network = config["models"][name]
            options += ["--own-network", name, network["file"], network["function"]]
    return options
