"""Experiments with trained networks."""

from collections.abc import Iterator, Mapping
from typing import Any

from ntk_conditioning.networks.architectures import MODELS, kind_of
from ntk_conditioning.training.descent import BEYOND_PLAIN, Descent
from ntk_conditioning.training.prediction import UNPREDICTABLE
from ntk_workflow.checks import Known, activation_names, datasets, enough, networks, own_network
from ntk_workflow.config import canonical, did_you_mean

#: What an experiment's exception for a model can be of.
MODEL_EXCEPTIONS = ("batch_size", "epochs", "learning_rates")

Values = Mapping[str, Any]


def checks(known: Known, experiment: str) -> Iterator[str]:
    """Yield a line for every mistake of an experiment."""
    values, where = known.config["training"][experiment], f"training.{experiment}."
    yield from datasets(known, values, where, labels="training needs them")
    yield from activation_names(known, values["activations"], f"{where}activations")
    if values["loss"] == "cross_entropy" and values["outputs"] == "scalar":
        yield f"{where}outputs: cross_entropy needs outputs classes; give them, or loss square"
    if values["mixed_precision"] and values["dtype"] != "float32":
        yield f"{where}mixed_precision: needs dtype float32, not {values['dtype']}"
    yield from _overrides(known, values, where)
    for index, name in enumerate(values["datasets"]):
        if name in known.catalogue:
            yield from _dataset(known, name, values, where, f"{where}datasets[{index}]")
    for index, name in enumerate(values["models"]):
        yield from _network(known, name, values, where, f"{where}models[{index}]")


def _overrides(known: Known, values: Values, where: str) -> Iterator[str]:
    # Not only those of the experiment: an overlay cannot take an exception back.
    every = [*known.catalogue, *MODELS, *known.models]
    for name, exception in values["overrides"].items():
        if name not in every:
            advice = did_you_mean(name, every)
            yield f"{where}overrides.{name}: unknown dataset {name!r}; {advice}"
        elif name not in known.catalogue:
            for key in sorted(set(exception) - set(MODEL_EXCEPTIONS)):
                allowed = f"those of a model are {', '.join(MODEL_EXCEPTIONS)}"
                yield f"{where}overrides.{name}.{key}: {key} is a dataset's; {allowed}"


def _dataset(known: Known, name: str, values: Values, where: str, place: str) -> Iterator[str]:
    exception = values["overrides"].get(name, {})
    key = f"overrides.{name}.samples" if "samples" in exception else "samples"
    yield from enough(known, {**values, **exception}["samples"], name, f"{where}{key}")
    tested = "test_x" in known.catalogue[name].get("files", {})
    if values["criterion"] == "test_accuracy" and not tested and not values["test_share"]:
        problem = f"{name} has no test samples; give a test_share or another criterion"
        yield f"{where}criterion: {problem}"
    needs = [model for model in values["models"] if kind_of(model).needs_images]
    needs = [*(["augmentation"] if values["augmentation"] != "none" else []), *needs]
    if needs and known.image(name) is None:
        remedy = "give its catalogue entry image: [height, width, colours]"
        yield f"{place}: {needs[0]} needs images, {name} has none; {remedy}"


def _network(known: Known, name: str, values: Values, where: str, place: str) -> Iterator[str]:
    exceptions = [values["overrides"].get(dataset, {}) for dataset in values["datasets"]]
    depths = [depth for each in exceptions for depth in each.get("depths", values["depths"])]
    sizes = {"models": [name], "depths": depths, "widths": [values["width"]], "overrides": {}}
    for line in networks(known, sizes, where):
        yield line.replace(f"{where}models[0]", place)
    kind = kind_of(name)
    for key in BEYOND_PLAIN if not kind.by_modules and name in MODELS else ():
        default = canonical(getattr(Descent, key))
        if values[key] != (list(default) if isinstance(default, tuple) else default):
            remedy = f"leave it at {default}, or give {name} its own experiment"
            yield f"{where}{key}: {name} has momentum only; {remedy}"
    if kind.normalization == "batch" and values["predict"]:
        yield f"{where}predict: {name}: {UNPREDICTABLE}; switch it off"
    if name in known.models:
        yield from own_network(known, name, values, place)
