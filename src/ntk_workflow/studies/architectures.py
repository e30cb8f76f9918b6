"""Kernels at initialisation of many kinds of networks."""

from collections.abc import Iterator

from ntk_conditioning.networks.architectures import MODELS, kind_of
from ntk_workflow.checks import Known, enough, names, networks, own_network
from ntk_workflow.config import did_you_mean

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
