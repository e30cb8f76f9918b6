"""What a config asks for and cannot have: a line for each mistake, sorted by the study it is in.

`config.schema_errors` has found every key that is unknown or of the wrong type before. What is
checked here stands in the way of its own study alone: a figure without data is drawn whatever the
blocks of the main grid are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.architectures import MODELS, depth_problem
from ntk_conditioning.training.descent import BEYOND_PLAIN
from ntk_workflow.catalogue import SPEECH, path_errors
from ntk_workflow.config import Layer, did_you_mean, key_name, source_of

#: The study of kernels and angles whose keys stand at the top of the config.
GRID = "grid"

#: Studies of feedforward networks whose width varies, after liu2022transition.
WIDTH_STUDIES = ("orthogonality_study", "linearity_study")

#: What an experiment's exception for a model can be of.
MODEL_EXCEPTIONS = ("batch_size", "epochs", "learning_rates")

Config = Mapping[str, Any]
At = Callable[..., str]


@dataclass(frozen=True)
class Known:
    """What names in a config may refer to.

    ``samples`` has the number of samples of each dataset, None where only its files tell;
    ``images`` the datasets whose samples are images; ``plain`` an experiment's defaults.
    """

    catalogue: Mapping[str, Any]
    samples: Mapping[str, int | None]
    images: Collection[str]
    plain: Config


def problems(config: Config, known: Known, layers: Sequence[Layer]) -> dict[str, list[str]]:
    """Return the lines of every study that has a mistake, by the study's name.

    Names are ``grid``, those of the studies' keys, and ``training.`` with an experiment's.
    """

    def at(*path: str | int) -> str:
        return f"{source_of(path, layers)}: {key_name(path)}"

    checks: dict[str, Iterator[str]] = {GRID: _grid(config, known, at)}
    if config["activation_study"]:
        checks["activation_study"] = _activation_study(config, known, at)
    if config["activation_constants"]:
        names = config["activation_constants"]
        checks["activation_constants"] = _names("activation_constants", names, at)
    if config["bounds_study"]:
        checks["bounds_study"] = _bounds_study(config["bounds_study"], known, at)
    for study in WIDTH_STUDIES:
        if config[study]:
            checks[study] = _width_study(study, config, known, at)
    for name, values in (config["training"] or {}).items():
        if values:
            checks[f"training.{name}"] = _training(name, values, known, at)
    return {name: found for name, lines in checks.items() if (found := list(lines))}


def used_datasets(values: Config) -> list[str]:
    """Return the datasets of a run, each once."""
    studies = ("activation_study", "bounds_study", *WIDTH_STUDIES)
    sections = [values, *(values[study] for study in studies)]
    sections += (values["training"] or {}).values()
    return list(
        dict.fromkeys(name for section in sections if section for name in section["datasets"])
    )


def _names(key: str | Sequence[str], names: Sequence[str], at: At) -> Iterator[str]:
    """Yield lines for activations that are not known."""
    place = (key,) if isinstance(key, str) else key
    for index, name in enumerate(names):
        if not activations.is_known(name):
            advice = did_you_mean(name, activations.names())
            yield f"{at(*place, index)}: unknown activation {name!r}; {advice}"


def _datasets(
    place: Sequence[str], names: Sequence[str], known: Known, at: At, *, labels: str = ""
) -> Iterator[str]:
    """Yield lines for datasets that are not known, not there, or lack the ``labels`` they need."""
    for index, name in enumerate(names):
        where = at(*place, "datasets", index)
        if name not in known.catalogue:
            yield f"{where}: unknown dataset {name!r}; {did_you_mean(name, known.catalogue)}"
            continue
        if labels and known.catalogue[name]["reader"] == "gaussian":
            yield f"{where}: {name} has no labels, and {labels}; remove it"
        yield from path_errors(name, known.catalogue[name])


def _grid(config: Config, known: Known, at: At) -> Iterator[str]:
    yield from _datasets((), config["datasets"], known, at)
    yield from _names("activations", config["activations"], at)
    used = used_datasets(config)
    for name, exception in config["overrides"].items():
        if name not in used:
            yield f"{at('overrides', name)}: no dataset of this run; {did_you_mean(name, used)}"
        elif "frames" in exception and known.catalogue.get(name, {}).get("reader") != SPEECH:
            yield (
                f"{at('overrides', name, 'frames')}: {name} is no speech corpus; frames are drawn "
                "of datasets with reader librispeech"
            )
    for name in config["datasets"]:
        exception = config["overrides"].get(name, {})
        keys = ("samples", "balanced", "kernel_size", "blocks")
        values = {key: exception.get(key, config[key]) for key in keys}

        def place(key: str, name: str = name, exception: Config = exception) -> str:
            return at("overrides", name, key) if key in exception else at(key)

        yield from _blocks(name, values, known.samples.get(name), place)


def _blocks(name: str, values: Config, available: int | None, place: At) -> Iterator[str]:
    """Yield lines for subsets and blocks that a dataset of known size cannot give."""
    samples, size, blocks = values["samples"], values["kernel_size"], values["blocks"]
    if values["balanced"] and samples == "all":
        yield f"{place('balanced')}: {name} is whole (samples all); give samples a number to draw"
    if size == "all" and blocks not in ("all", 1):
        yield f"{place('blocks')}: kernel_size all makes one block of {name}; set it to 1"
    if available is None:
        return
    if samples != "all" and samples > available:
        yield (
            f"{place('samples')}: {samples} is more than the {available} samples of {name}; use all"
        )
        return
    n = available if samples == "all" else samples
    if size == "all":
        return
    if size > n:
        yield (
            f"{place('kernel_size')}: a block of {size} is larger than {name} ({n} samples); "
            f"at most {n}"
        )
    elif blocks != "all" and blocks * size > n:
        yield (
            f"{place('blocks')}: {blocks} disjoint blocks of {size} need {blocks * size} samples "
            f"and {name} has {n}; at most {n // size}"
        )


def _activation_study(config: Config, known: Known, at: At) -> Iterator[str]:
    study = config["activation_study"]
    place = partial(at, "activation_study")
    yield from _datasets(("activation_study",), study["datasets"], known, at)
    yield from _names(("activation_study", "activations"), study["activations"], at)
    for name in study["datasets"]:
        values = {"samples": "all", "balanced": False, **study}
        yield from _blocks(name, values, known.samples.get(name), place)


def _bounds_study(study: Config, known: Known, at: At) -> Iterator[str]:
    yield from _datasets(("bounds_study",), study["datasets"], known, at)
    yield from _names(("bounds_study", "activations"), study["activations"], at)
    for index, name in enumerate(study["datasets"]):
        if name not in known.catalogue:
            continue
        if known.catalogue[name]["scaling"] != "unit_norm":
            yield (
                f"{at('bounds_study', 'datasets', index)}: {name} is not on the unit sphere; take "
                "a dataset with scaling unit_norm"
            )
        yield from _enough(study["samples"], name, known, at("bounds_study", "samples"))


def _enough(samples: Any, name: str, known: Known, where: str) -> Iterator[str]:
    """Yield a line if a dataset has not so many samples."""
    available = known.samples.get(name)
    if samples != "all" and available is not None and samples > available:
        yield f"{where}: {samples} is more than the {available} samples of {name}; use all"


def _width_study(key: str, config: Config, known: Known, at: At) -> Iterator[str]:
    study, architectures = config[key], config["architectures"]
    yield from _datasets((key,), study["datasets"], known, at, labels="the study needs two classes")
    yield from _names((key, "activations"), study["activations"], at)
    for index, name in enumerate(study["architectures"]):
        if name not in architectures:
            advice = did_you_mean(name, architectures)
            yield f"{at(key, 'architectures', index)}: unknown architecture {name!r}; {advice}"
        elif "m" not in architectures[name]["hidden"]:
            yield (
                f"{at('architectures', name, 'hidden')}: no width of {name} is m, the one that "
                "varies; put m in"
            )
    for name in study["datasets"]:
        available = known.samples.get(name)
        if available is not None and study["samples"] > available:
            yield (
                f"{at(key, 'samples')}: {study['samples']} is more than the {available} samples "
                f"of {name}; take fewer"
            )
    if study.get("expansions", 1) > study["samples"]:
        yield (
            f"{at(key, 'expansions')}: {study['expansions']} is more than the {study['samples']} "
            "samples of the study; take fewer"
        )


def _training(experiment: str, values: Config, known: Known, at: At) -> Iterator[str]:
    place = ("training", experiment)
    yield from _datasets(place, values["datasets"], known, at, labels="training needs them")
    yield from _names((*place, "activations"), values["activations"], at)
    if values["loss"] == "cross_entropy" and values["outputs"] == "scalar":
        yield (
            f"{at(*place, 'outputs')}: cross_entropy needs an output for each class; give "
            "outputs classes, or loss square"
        )
    # Not only those of the experiment: an overlay cannot take an exception back.
    for name, exception in values["overrides"].items():
        where = at(*place, "overrides", name)
        if name in MODELS:
            for key in sorted(set(exception) - set(MODEL_EXCEPTIONS)):
                yield (
                    f"{where}.{key}: {name} is a model, and its exceptions are of "
                    f"{', '.join(MODEL_EXCEPTIONS)}; give {key} for a dataset"
                )
        elif name not in known.catalogue:
            advice = did_you_mean(name, [*known.catalogue, *MODELS])
            yield f"{where}: unknown dataset {name!r}; {advice}"
    for name in values["datasets"]:
        exception = values["overrides"].get(name, {})
        key = ("overrides", name, "samples") if "samples" in exception else ("samples",)
        samples = exception.get("samples", values["samples"])
        yield from _enough(samples, name, known, at(*place, *key))
    yield from _models(place, values, known, at)


def _models(place: tuple[str, str], values: Config, known: Known, at: At) -> Iterator[str]:
    """Yield lines for what does not go with the models of an experiment."""
    overrides = values["overrides"]
    if values["mixed_precision"] and values["dtype"] != "float32":
        yield f"{at(*place, 'mixed_precision')}: needs dtype float32, not {values['dtype']}"
    images = values["augmentation"] != "none"
    for index, name in enumerate(values["models"]):
        model, where = MODELS[name], at(*place, "models", index)
        images = images or model.needs_images
        if not model.by_modules:
            for key in BEYOND_PLAIN:
                if values[key] != known.plain[key]:
                    yield (
                        f"{at(*place, key)}: {name} is trained by plain gradient descent; leave it "
                        f"at {known.plain[key]!r}, or take {name} to an experiment of its own"
                    )
            continue
        rates = [values["learning_rates"]]
        rates += [one["learning_rates"] for one in overrides.values() if "learning_rates" in one]
        its_own = overrides.get(name, {}).get("learning_rates")
        if not isinstance(its_own, list) and not all(isinstance(each, list) for each in rates):
            yield (
                f"{where}: critical learning rates are known of mlp only; give {name} a list of "
                f"learning_rates, there or in {key_name([*place, 'overrides', name])}"
            )
        for dataset in values["datasets"]:
            for depth in overrides.get(dataset, {}).get("depths", values["depths"]):
                if problem := depth_problem(name, depth):
                    yield f"{where}: {problem}, not {depth}; correct depths"
    for index, name in enumerate(values["datasets"]):
        if name not in known.catalogue:
            continue
        if images and name not in known.images:
            what = "augmentation" if values["augmentation"] != "none" else "resnets"
            yield (
                f"{at(*place, 'datasets', index)}: {what} need images, and of {name} no image "
                "shape is known; give its catalogue entry image: [height, width, colours], or take "
                "another dataset"
            )
        tested = "test_x" in known.catalogue[name].get("files", {}) or values["test_share"] > 0
        if values["criterion"] == "test_accuracy" and not tested:
            yield (
                f"{at(*place, 'criterion')}: {name} has no test samples; give a test_share, or "
                "another criterion"
            )
