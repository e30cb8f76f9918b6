"""What a config of the right types asks for and cannot have: a line for each mistake.

A mistake stops its own study alone, when jobs of that are asked for. Here are the main grid and
what studies share; what is a study's own is in its module of `studies`.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, util
from itertools import chain, product
from typing import Any

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import TOLERATED, DualErrors
from ntk_conditioning.networks.architectures import MODELS, depth_problem, width_problem
from ntk_workflow import catalogue
from ntk_workflow.config import Config, did_you_mean

#: The study of kernels and angles whose keys stand at the top of the config.
GRID = "grid"


@dataclass(frozen=True, eq=False)
class Known:
    """A config, and what the names in it may refer to: ``dual_errors`` are of activations."""

    config: Config
    catalogue: Mapping[str, catalogue.Entry]
    models: Mapping[str, Any]
    dual_errors: Mapping[str, DualErrors]

    def shape(self, name: str) -> tuple[int | None, int | None]:
        """Return samples and features of a dataset, None where only its files tell."""
        speech = {**self.config["speech"], **self.config["overrides"].get(name, {})}
        entry = self.catalogue.get(name)
        return catalogue.shape_of(entry, speech) if entry else (None, None)

    def samples(self, name: str) -> int | None:
        """Return how many samples a dataset has, None where that is not known."""
        wrong = any(catalogue.file_problems(name, self.catalogue.get(name, {})))
        return None if wrong else self.shape(name)[0]

    def image(self, name: str) -> tuple[int, int, int] | None:
        """Return height, width and colours of a dataset's samples, None if they are no images."""
        return catalogue.known_image(self.catalogue[name]) if name in self.catalogue else None

    def on_sphere(self, name: str) -> bool:
        """Return whether a dataset's samples have norm 1, or are not known at all."""
        return bool(self.catalogue.get(name, {}).get("scaling", "unit_norm") == "unit_norm")


def used_datasets(config: Config) -> list[str]:
    """Return the datasets of a run, each once."""
    studies = [config[key] for key in config if key.endswith("_study")]
    sections = [config, *studies, *(config["training"] or {}).values()]
    return list(dict.fromkeys(chain(*(each.get("datasets", ()) for each in sections if each))))


@cache
def mistakes(study: str, known: Known) -> list[str]:
    """Return what is wrong with a study: ``grid``, its key, or ``training.`` with an experiment."""
    if study == GRID:
        return [*_grid(known)]
    key, _, experiment = study.partition(".")
    section = known.config[key] and (known.config[key][experiment] if experiment else True)
    module = f"ntk_workflow.studies.{key.removesuffix('_study')}"
    if not section or util.find_spec(module) is None:
        return []
    checks = getattr(import_module(module), "checks", lambda *_: ())
    return [*checks(known, *([experiment] if experiment else []))]


def _grid(known: Known) -> Iterator[str]:
    config, used = known.config, used_datasets(known.config)
    yield from datasets(known, config)
    on = config["datasets"] if {"infinite_ntk", "nngp"} & {*config["kernels"]} else ()
    yield from activation_names(known, config["activations"], "activations", infinite=on)
    # a dataset that is not known is reported above
    readers = {name: known.catalogue.get(name, {}).get("reader") for name in used}
    for name, exception in config["overrides"].items():
        if name not in used:
            yield f"overrides.{name}: no dataset of this run; {did_you_mean(name, used)}"
        elif "frames" in exception and readers[name] not in (None, catalogue.SPEECH):
            yield f"overrides.{name}.frames: {name} is no speech corpus; remove frames"
    for name in config["datasets"]:
        exception = config["overrides"].get(name, {})
        keys = {key: f"overrides.{name}.{key}" for key in exception}
        yield from blocks(known, name, {**config, **exception}, keys)


def datasets(known: Known, section: Config, where: str = "", labels: str = "") -> Iterator[str]:
    """Yield lines for datasets of a section that are not there, or lack ``labels``."""
    for index, name in enumerate(section["datasets"]):
        place = f"{where}datasets[{index}]"
        if name not in known.catalogue:
            yield f"{place}: unknown dataset {name!r}; {did_you_mean(name, known.catalogue)}"
            continue
        entry = known.catalogue[name]
        kinds = catalogue.known_labels(name, entry) if labels else None
        if kinds == 0:
            yield f"{place}: {name} has no labels, and {labels}; remove it"
        elif kinds == 1:
            yield f"{place}: all labels of {name} are equal: nothing can be learned; remove it"
        yield from catalogue.file_problems(name, entry)


def activation_names(
    known: Known, names: Collection[str], where: str, infinite: Collection[str] = ()
) -> Iterator[str]:
    """Yield lines for activations that are not known, or inexact for ``infinite`` datasets."""
    norms = [name for name in infinite if not known.on_sphere(name)]
    for index, name in enumerate(names):
        place = f"{where}[{index}]"
        if not activations.is_known(name):
            yield f"{place}: unknown activation {name!r}; {did_you_mean(name, activations.names())}"
        one, different = known.dual_errors.get(activations.base_name(name), (0, 0))
        error, remedy = one, ""
        if one <= TOLERATED and norms:
            error, remedy = different, " where norms differ; take scaling unit_norm, unlike "
            remedy += norms[0]
        if infinite and error > TOLERATED:
            limit = f"more than the {TOLERATED:.0%} that are tolerated"
            yield f"{place}: {name} has errors of {error:.2%} at infinite width, {limit}{remedy}"


def names(known: Known, study: str, *, labels: str = "", infinite: bool = True) -> Iterator[str]:
    """Yield lines for datasets and activations of a study."""
    section = known.config[study]
    yield from datasets(known, section, f"{study}.", labels)
    on = section["datasets"] if infinite else ()
    yield from activation_names(known, section["activations"], f"{study}.activations", on)


def enough(known: Known, samples: Any, name: str, where: str) -> Iterator[str]:
    """Yield a line if a dataset has not so many samples."""
    available = known.samples(name)
    if samples != "all" and available is not None and samples > available:
        excess = f"{samples} is more than the {available} samples of {name}"
        yield f"{where}: {excess}; take at most {available}"


def blocks(known: Known, name: str, values: Config, places: Mapping[str, str]) -> Iterator[str]:
    """Yield lines for subsets and blocks that a dataset of known size cannot give."""
    samples, size, count = values["samples"], values["kernel_size"], values["blocks"]
    place = {**dict(zip(values, values, strict=True)), **places}
    n = known.samples(name) if samples == "all" else samples
    yield from enough(known, samples, name, place["samples"])
    if values["balanced"] and samples == "all":
        yield f"{place['balanced']}: {name} is whole (samples all); give samples a number to draw"
    if size == "all":
        if count not in ("all", 1):
            yield f"{place['blocks']}: kernel_size all makes one block of {name}; set it to 1"
    elif n is not None and size > n:
        problem = f"a block of {size} is larger than {name} ({n} samples)"
        yield f"{place['kernel_size']}: {problem}; at most {n}"
    elif n is not None and count != "all" and count * size > n:
        need = f"{count} disjoint blocks of {size} need {count * size} samples"
        yield f"{place['blocks']}: {need} and {name} has {n}; at most {n // size}"


def networks(known: Known, section: Config, where: str) -> Iterator[str]:
    """Yield lines for networks of a section that are unknown, or of sizes they cannot have."""
    every = [*MODELS, *known.models]
    for index, name in enumerate(section["models"]):
        place, values = f"{where}models[{index}]", {**section, **section["overrides"].get(name, {})}
        if name not in every:
            yield f"{place}: unknown network {name!r}; {did_you_mean(name, every)}"
            continue
        for key, problem_of in {"depth": depth_problem, "width": width_problem}.items():
            for size in values[f"{key}s"]:
                if problem := problem_of(name, size):
                    yield f"{place}: {problem}, not {size}; correct the {key}s"
        if name in known.models:
            yield from _own_network(known, name, values, place)


def _own_network(known: Known, name: str, values: Config, place: str) -> Iterator[str]:
    """Yield a line if a network of the user's own cannot be built and trained as it is used."""
    from ntk_conditioning.networks import own  # only where it is needed: torch takes seconds

    sigma, outputs = activations.get("relu"), 3 if values.get("outputs") == "classes" else 1
    for dataset, depth, width in product(values["datasets"], values["depths"], values["widths"]):
        d, image = known.shape(dataset)[1], known.image(dataset)
        size = {"d": d, "image": image, "depth": depth, "width": width}
        try:
            if d is not None:
                own.require_trainable(known.models[name], **size, activation=sigma, outputs=outputs)
        except UserError as error:
            yield f"{place}: {name} on {dataset}: {error}"
            return


def images(known: Known, section: Config, where: str, augmented: bool = False) -> Iterator[str]:
    """Yield lines for datasets without images that a section's networks or augmentation need."""
    needs = [name for name in section["models"] if name in MODELS and MODELS[name].needs_images]
    needs = ["augmentation", *needs] if augmented else needs
    for index, name in enumerate(section["datasets"]) if needs else ():
        if name in known.catalogue and known.image(name) is None:
            remedy = "give its catalogue entry image: [height, width, colours]"
            yield f"{where}datasets[{index}]: {needs[0]} needs images, {name} has none; {remedy}"
