"""What a config of the right types asks for and cannot have: a line for each mistake.

A mistake stops its own study alone, when jobs of that are asked for. Here are the main grid and
what studies share; what is a study's own is in its module of `studies`.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import import_module, util
from itertools import product
from types import ModuleType
from typing import Any

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import TOLERATED
from ntk_conditioning.networks.architectures import MODELS, size_problem
from ntk_workflow import catalogue
from ntk_workflow.config import Config, did_you_mean
from ntk_workflow.run import GRID, Run, refuse, used_datasets


def require(run: Run, study: str) -> None:
    """End the program if a study is switched off or has mistakes."""
    lines = [] if run.checked else [*mistakes(study, run)]
    if study != GRID and not run.section(study):
        lines.append(f"config: {study} is switched off (null), and what was asked for needs it")
    if lines:
        refuse("\n".join(["The configuration has mistakes:", *lines]))


@cache
def mistakes(study: str, run: Run) -> list[str]:
    """Return what is wrong with a study: ``grid``, its key, or ``training.`` with an experiment."""
    if study == GRID:
        return [*_grid(run)]
    key, _, experiment = study.partition(".")
    section = run.config[key] and (run.config[key][experiment] if experiment else True)
    checks = getattr(study_module(key), "checks", None) if section else None
    return [*checks(run, *([experiment] if experiment else []))] if checks else []


def study_module(study: str) -> ModuleType | None:
    """Return the module of a study, by its key in the config: its checks and sizes."""
    name = f"ntk_workflow.studies.{study.removesuffix('_study')}"
    return import_module(name) if util.find_spec(name) else None


def _grid(run: Run) -> Iterator[str]:
    config, used = run.config, used_datasets(run.config)
    yield from datasets(run, config)
    on = config["datasets"] if {"infinite_ntk", "nngp"} & {*config["kernels"]} else ()
    yield from activation_names(run, config["activations"], "activations", infinite=on)
    # a dataset that is not known is reported above
    readers = {name: run.catalogue.get(name, {}).get("reader") for name in used}
    for name, exception in config["overrides"].items():
        if name not in used:
            yield f"overrides.{name}: no dataset of this run; {did_you_mean(name, used)}"
        elif "frames" in exception and readers[name] not in (None, catalogue.SPEECH):
            yield f"overrides.{name}.frames: {name} is no speech corpus; remove frames"
    for name in config["datasets"]:
        exception = config["overrides"].get(name, {})
        keys = {key: f"overrides.{name}.{key}" for key in exception}
        yield from blocks(run, name, {**config, **exception}, keys)


def datasets(run: Run, section: Config, where: str = "", labels: str = "") -> Iterator[str]:
    """Yield lines for datasets of a section that are not there, or lack ``labels``."""
    for index, name in enumerate(section["datasets"]):
        at = f"{where}datasets[{index}]"
        if name not in run.catalogue:
            yield f"{at}: unknown dataset {name!r}; {did_you_mean(name, run.catalogue)}"
            continue
        entry = run.catalogue[name]
        kinds = catalogue.known_labels(entry) if labels else None
        if kinds == 0:
            yield f"{at}: {name} has no labels, and {labels}; remove it"
        elif kinds == 1:
            yield f"{at}: all labels of {name} are equal: nothing can be learned; remove it"
        yield from catalogue.file_problems(name, entry)


def activation_names(
    run: Run, names: Collection[str], where: str, infinite: Collection[str] = ()
) -> Iterator[str]:
    """Yield lines for activations that are not known, or inexact for ``infinite`` datasets."""
    norms = [name for name in infinite if not on_sphere(run, name)]
    for index, name in enumerate(names):
        at = f"{where}[{index}]"
        if not activations.is_known(name):
            yield f"{at}: unknown activation {name!r}; {did_you_mean(name, activations.names())}"
        one, different = run.dual_errors.get(activations.base_name(name), (0, 0))
        error, remedy = one, "; name the points where its derivative jumps: kinks=(...)"
        if one <= TOLERATED and norms:
            error, remedy = different, " where norms differ; take scaling unit_norm, unlike "
            remedy += norms[0]
        if infinite and error > TOLERATED:
            limit = f"more than the {TOLERATED:.0%} that are tolerated"
            yield f"{at}: {name} has errors of {error:.2%} at infinite width, {limit}{remedy}"


def names(
    run: Run, study: str, *, labels: str = "", infinite: bool = True, drawn: bool = True
) -> Iterator[str]:
    """Yield lines for datasets and activations of a study, and for ``drawn`` samples."""
    section = run.config[study]
    yield from datasets(run, section, f"{study}.", labels)
    on = section["datasets"] if infinite else ()
    yield from activation_names(run, section["activations"], f"{study}.activations", on)
    for name in section["datasets"] if drawn else ():
        yield from enough(run, section.get("samples", "all"), name, f"{study}.samples")


def on_sphere(run: Run, name: str) -> bool:
    """Return whether a dataset's samples have norm 1, or are not known at all."""
    return bool(run.catalogue.get(name, {}).get("scaling", "unit_norm") == "unit_norm")


def available_samples(run: Run, name: str) -> int | None:
    """Return how many samples a dataset has, None where that is not known."""
    wrong = any(catalogue.file_problems(name, run.catalogue.get(name, {})))
    return None if wrong else run.shape(name)[0]


def enough(run: Run, samples: Any, name: str, where: str) -> Iterator[str]:
    """Yield a line if a dataset has not so many samples, the most of a list of sizes."""
    available = available_samples(run, name)
    samples = max(samples, default=0) if isinstance(samples, list) else samples
    if samples != "all" and available is not None and samples > available:
        excess = f"{samples} is more than the {available} samples of {name}"
        yield f"{where}: {excess}; take at most {available}"


def blocks(run: Run, name: str, values: Config, places: Mapping[str, str]) -> Iterator[str]:
    """Yield lines for subsets and blocks that a dataset of known size cannot give."""
    samples, size, count = values["samples"], values["kernel_size"], values["blocks"]
    at = {**dict(zip(values, values, strict=True)), **places}
    n = available_samples(run, name) if samples == "all" else samples
    yield from enough(run, samples, name, at["samples"])
    if values["balanced"] and samples == "all":
        yield f"{at['balanced']}: {name} is whole (samples all); give samples a number to draw"
    if size == "all":
        if count not in ("all", 1):
            yield f"{at['blocks']}: kernel_size all makes one block of {name}; set it to 1"
    elif n is not None and size > n:
        problem = f"a block of {size} is larger than {name} ({n} samples)"
        yield f"{at['kernel_size']}: {problem}; at most {n}"
    elif n is not None and count != "all" and count * size > n:
        need = f"{count} disjoint blocks of {size} need {count * size} samples"
        yield f"{at['blocks']}: {need} and {name} has {n}; at most {n // size}"


def networks(run: Run, section: Config, where: str) -> Iterator[str]:
    """Yield lines for networks of a section that are unknown, or of sizes they cannot have."""
    every = [*MODELS, *run.models]
    for index, name in enumerate(section["models"]):
        at = f"{where}models[{index}]"
        values = {**section, **section["overrides"].get(name, {})}
        if name not in every:
            yield f"{at}: unknown network {name!r}; {did_you_mean(name, every)}"
            continue
        for key in ("depth", "width"):
            for size in values[f"{key}s"]:
                if problem := size_problem(name, **{key: size}):
                    yield f"{at}: {problem}, not {size}; correct the {key}s"
        if name in run.models:
            yield from _user_network(run, name, values, at)


def _user_network(run: Run, name: str, values: Config, at: str) -> Iterator[str]:
    """Yield a line if a user's network cannot be built and trained as it is used."""
    from ntk_conditioning.networks import user_models  # torch takes seconds

    relu, outputs = activations.get("relu"), 3 if values.get("outputs") == "classes" else 1
    for dataset, depth, width in product(values["datasets"], values["depths"], values["widths"]):
        d, image = run.shape(dataset)[1], run.image(dataset)
        size = {"d": d, "image": image, "depth": depth, "width": width, "outputs": outputs}
        try:
            if d is not None:
                user_models.require_trainable(run.models[name], **size, activation=relu)
        except UserError as error:
            yield f"{at}: {name} on {dataset}: {error}"
            return


def images(run: Run, section: Config, where: str, augmented: bool = False) -> Iterator[str]:
    """Yield lines for datasets without images that a section's networks or augmentation need."""
    needs = [name for name in section["models"] if name in MODELS and MODELS[name].needs_images]
    needs = ["augmentation", *needs] if augmented else needs
    for index, name in enumerate(section["datasets"]) if needs else ():
        if name in run.catalogue and run.image(name) is None:
            remedy = "give its catalogue entry image: [height, width, colours]"
            yield f"{where}datasets[{index}]: {needs[0]} needs images, {name} has none; {remedy}"
