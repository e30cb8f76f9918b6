"""What the jobs of a rule ask a scheduler for, from the config and the sizes of the datasets."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.architectures import Sizes
from ntk_workflow import catalogue, training_resources
from ntk_workflow.plan import datasets, trainings
from ntk_workflow.plan.run import Run
from ntk_workflow.resources import PROGRAM, TORCH_START, Samples, Size
from ntk_workflow.trainings.settings import TrainingSettings

#: Samples and features of a dataset of which nothing is known before its files are read.
UNKNOWN = (50_000, 1000)


def resources_of(
    run: Run, rule: str, *, study: str = "", gpu: bool = False
) -> dict[str, Callable[..., int]]:
    """Return the resources of a rule: MB, minutes, and seconds of a core, or of the ``gpu``.

    The formula is the function of the rule's name in `resources`, or in the module of a study.
    """
    module = import_module(f"ntk_workflow.studies.{study}" if study else "ntk_workflow.resources")
    of_trainings = {"train_network": train_network, "predict_training": predict_training}

    @cache
    def size(**wildcards: str) -> Size:
        w, dataset = SimpleNamespace(**wildcards), wildcards.get("dataset", "")
        samples = samples_of(run, dataset)
        if rule in of_trainings:
            return of_trainings[rule](run, w, samples)
        config = {**run.config, **run.config["overrides"].get(dataset, {})}
        needed: Size = getattr(module, rule)(w, config, samples)
        return needed

    def runtime(wildcards: Any, attempt: int, threads: int) -> int:
        return size(**dict(wildcards)).runtime(attempt, threads=threads, gpu=gpu)

    return {
        "mem_mb": lambda wildcards, attempt: size(**dict(wildcards)).mem_mb(attempt),
        "runtime": runtime,
        "core_seconds": lambda wildcards: size(**dict(wildcards)).core_seconds(gpu=gpu),
    }


def samples_of(run: Run, dataset: str) -> Samples:
    """Return what is known of a dataset before its files are read."""
    if dataset not in run.catalogue:
        return Samples(*UNKNOWN)
    entry, (n, d) = run.catalogue[dataset], datasets.shape(run, dataset)
    return Samples(
        n or UNKNOWN[0],
        d or UNKNOWN[1],
        image=catalogue.known_image(entry),
        one_norm=entry["scaling"] == "unit_norm",
        classes=catalogue.classes_of(entry),
    )


def train_network(run: Run, w: Any, samples: Samples) -> Size:
    """Return the size of a network's training, and of the kernels with which it begins."""
    model, depth, settings = w.model, int(w.depth), trainings.job_settings(run, w)
    sizes = network_sizes(run, w, settings, depth, samples)
    size = training_resources.training(model, settings, depth, samples, sizes=sizes)
    if settings.has_initial_kernel(model):
        size += training_resources.initial_kernel(model, settings, samples, sizes)
    return size


def predict_training(run: Run, w: Any, samples: Samples) -> Size:
    """Return the size of the predictions of all depths."""
    settings, size = (
        trainings.settings(run, w.experiment, w.dataset, w.model),
        Size(TORCH_START, PROGRAM),
    )
    for depth in trainings.depths(run, w.experiment, w.dataset):
        sizes = network_sizes(run, w, settings, depth, samples)
        size += training_resources.prediction(w.model, settings, depth, samples, sizes)
    return size


def network_sizes(
    run: Run, w: Any, settings: TrainingSettings, depth: int, samples: Samples
) -> Sizes:
    """Return the sizes of a network, which may be the user's own."""
    if w.model not in run.models:
        return training_resources.sizes_of(w.model, settings, depth, samples)
    if datasets.shape(run, w.dataset)[1] is None:  # it could not be tried
        return training_resources.sizes_of("fc", settings, depth, samples)
    from ntk_conditioning.networks import own  # torch takes seconds

    outputs = training_resources.outputs_of(settings, samples)
    shape: dict[str, Any] = {"d": samples.d, "depth": depth, "width": settings.width}
    shape |= {"outputs": outputs, "image": settings.image}
    activation = activations.get(w.activation)
    return own.measure_sizes(run.models[w.model], **shape, activation=activation)
