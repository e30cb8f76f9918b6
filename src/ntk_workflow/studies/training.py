"""Experiments with trained networks."""

from collections.abc import Iterator
from itertools import chain

from ntk_conditioning.networks.architectures import MODELS, kind_of
from ntk_conditioning.training.descent import BEYOND_PLAIN, Descent
from ntk_workflow.checks import activation_names, datasets, enough, images, networks
from ntk_workflow.config import Config, did_you_mean
from ntk_workflow.run import Run

#: What an experiment's exception for a model can be of.
FOR_MODELS = ("batch_size", "epochs", "learning_rates")


def checks(run: Run, experiment: str) -> Iterator[str]:
    """Yield a line for every mistake of an experiment."""
    values, where = run.config["training"][experiment], f"training.{experiment}."
    overrides, models = values["overrides"], values["models"]
    yield from datasets(run, values, where, labels="training needs them")
    yield from activation_names(run, values["activations"], f"{where}activations")
    if values["loss"] == "cross_entropy" and values["outputs"] == "scalar":
        yield f"{where}outputs: cross_entropy needs outputs classes; give them, or loss square"
    if values["mixed_precision"] and values["dtype"] != "float32":
        yield f"{where}mixed_precision: needs dtype float32, not {values['dtype']}"
    # Not only those of the experiment: an overlay cannot take an exception back.
    every = [*run.catalogue, *MODELS, *run.models]
    for name in overrides.keys() - every:
        yield f"{where}overrides.{name}: unknown dataset {name!r}; {did_you_mean(name, every)}"
    for name in overrides.keys() & {*MODELS, *run.models} - run.catalogue.keys():
        for key in sorted(overrides[name].keys() - FOR_MODELS):
            problem = f"{key} is a dataset's; those of a model are {', '.join(FOR_MODELS)}"
            yield f"{where}overrides.{name}.{key}: {problem}"
    for name in values["datasets"]:
        yield from _samples(run, name, {**values, **overrides.get(name, {})}, where)
    yield from images(run, values, where, values["augmentation"] != "none")
    depths = [
        overrides.get(name, {}).get("depths", values["depths"]) for name in values["datasets"]
    ]
    sizes = {"depths": sorted({*chain(*depths)}), "widths": [values["width"]], "overrides": {}}
    yield from networks(run, {**values, **sizes}, where)
    for key in BEYOND_PLAIN if "mlp" in models else ():
        given, default = values[key], getattr(Descent, key)
        if (tuple(given) if isinstance(given, list) else given) != default:
            problem = (
                f"mlp has momentum only; leave it at {default}, or give mlp its own experiment"
            )
            yield f"{where}{key}: {problem}"
    for name in models if values["predict"] else ():
        if kind_of(name).normalization == "batch":
            problem = "with batch normalisation outputs depend on the other samples of a step"
            yield f"{where}predict: {name}: {problem}; switch it off"


def _samples(run: Run, name: str, values: Config, where: str) -> Iterator[str]:
    prefix = f"overrides.{name}." if "samples" in values["overrides"].get(name, {}) else ""
    yield from enough(run, values["samples"], name, f"{where}{prefix}samples")
    tested = "test_x" in run.catalogue.get(name, {}).get("files", {})
    if values["criterion"] == "test_accuracy" and not (tested or values["test_share"]):
        problem = f"{name} has no test samples; give a test_share or another criterion"
        yield f"{where}criterion: {problem}"
