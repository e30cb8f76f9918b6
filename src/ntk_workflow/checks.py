"""What a config asks for and cannot have: a line for each mistake, sorted by the study it is in.

`config.schema_errors` has found every key that is unknown or of the wrong type before. What is
checked here stands in the way of its own study alone: a figure without data is drawn whatever the
blocks of the main grid are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import TOLERATED, DualErrors
from ntk_conditioning.networks.architectures import MODELS, depth_problem, kind_of, width_problem
from ntk_conditioning.training.descent import BEYOND_PLAIN
from ntk_conditioning.training.prediction import UNPREDICTABLE
from ntk_workflow.catalogue import SPEECH, content_errors, known_labels, path_errors
from ntk_workflow.config import Layer, did_you_mean, key_name, source_of

if TYPE_CHECKING:
    from ntk_conditioning.networks.own import OwnModel
    from ntk_workflow.trial import Trial

#: The study of kernels and angles whose keys stand at the top of the config.
GRID = "grid"

#: Studies of feedforward networks whose width varies, after liu2022transition.
WIDTH_STUDIES = ("orthogonality_study", "linearity_study")

#: Studies that name datasets.
STUDIES = (
    *("activation_study", "bounds_study", "phase_study", "finite_width_study"),
    *("repairs_study", "architectures_study", *WIDTH_STUDIES),
)

#: What an experiment's exception for a model can be of.
MODEL_EXCEPTIONS = ("batch_size", "epochs", "learning_rates")

#: Classes with which a network of the user's own is tried: the files tell how many there are.
ANY_CLASSES = 3

Config = Mapping[str, Any]
Place = Sequence[str | int]


def used_datasets(values: Config) -> list[str]:
    """Return the datasets of a run, each once."""
    sections = [values, *(values[key] for key in STUDIES), *(values["training"] or {}).values()]
    return list(dict.fromkeys(chain(*(section["datasets"] for section in sections if section))))


@dataclass(frozen=True)
class Checks:
    """A config, and what the names in it may refer to.

    ``shapes`` has the samples and features of each dataset that is used, None where only its files
    tell; ``images`` the height, width and colours of samples, None where they are no images;
    ``models`` the networks of the user's own, of which a ``trial`` says whether they train;
    ``plain`` an experiment's defaults; ``dual_errors`` those of the user's own activations.
    """

    config: Config
    layers: Sequence[Layer]
    catalogue: Mapping[str, Any]
    shapes: Mapping[str, tuple[int | None, int | None]]
    images: Mapping[str, tuple[int, int, int] | None]
    models: Mapping[str, OwnModel]
    plain: Config
    dual_errors: Mapping[str, DualErrors]
    trial: Trial

    def problems(self) -> dict[str, list[str]]:
        """Return the lines of every study that has a mistake, by the study's name.

        Names are ``grid``, those of the studies' keys, and ``training.`` with an experiment's.
        """
        checks: dict[str, Callable[[str], Iterator[str]]] = {
            GRID: self._grid,
            "activation_study": self._activation_study,
            "activation_constants": lambda study: self._activations((study,)),
            "bounds_study": self._bounds_study,
            "phase_study": self._phase_study,
            "finite_width_study": self._finite_width_study,
            "repairs_study": self._repairs_study,
            "architectures_study": self._architectures_study,
            **dict.fromkeys(WIDTH_STUDIES, self._width_study),
        }
        on = [study for study in checks if study == GRID or self.config[study]]
        lines = {study: [*checks[study](study)] for study in on}
        for name, values in (self.config["training"] or {}).items():
            lines[f"training.{name}"] = [*self._training(name, values)] if values else []
        return {study: mistakes for study, mistakes in lines.items() if mistakes}

    def at(self, *path: str | int) -> str:
        """Return what a line about a key begins with."""
        return f"{source_of(path, self.layers)}: {key_name(path)}"

    def _value(self, place: Place) -> Any:
        value: Any = self.config
        for key in place:
            value = value[key]
        return value

    def _activations(self, place: Place, *, infinite: Collection[str] = ()) -> Iterator[str]:
        """Yield lines for activations that are not known, or inexact at infinite width.

        ``infinite`` has the datasets of whose kernels that is asked.
        """
        norms = [name for name in infinite if not self._on_sphere(name)]
        for index, name in enumerate(self._value(place)):
            where = self.at(*place, index)
            if not activations.is_known(name):
                advice = did_you_mean(name, activations.names())
                yield f"{where}: unknown activation {name!r}; {advice}"
            errors = self.dual_errors.get(activations.base_name(name), DualErrors(0, 0))
            told = f"more than the {TOLERATED:.0%} that are tolerated"
            if infinite and errors.one_norm > TOLERATED:
                error = f"{errors.one_norm:.2%} at infinite width"
                yield f"{where}: {name} has errors of {error}, {told}"
            elif norms and errors.different_norms > TOLERATED:
                told += f"; {name} wants datasets with scaling unit_norm, unlike {norms[0]}"
                error = f"{errors.different_norms:.2%} at infinite width where norms differ"
                yield f"{where}: {name} has errors of {error}, {told}"

    def _on_sphere(self, name: str) -> bool:
        """Return whether a dataset's samples have norm 1, or are not known at all."""
        return bool(self.catalogue.get(name, {}).get("scaling", "unit_norm") == "unit_norm")

    def _names(
        self, place: Place = (), *, labels: str = "", infinite: bool = False
    ) -> Iterator[str]:
        """Yield lines for datasets that are not there, or lack ``labels``, and for activations."""
        for index, name in enumerate(self._value((*place, "datasets"))):
            where = self.at(*place, "datasets", index)
            if name not in self.catalogue:
                yield f"{where}: unknown dataset {name!r}; {did_you_mean(name, self.catalogue)}"
                continue
            asked = labels and self.trial.needed
            kinds = known_labels(name, self.catalogue[name]) if asked else None
            if kinds == 0:
                yield f"{where}: {name} has no labels, and {labels}; remove it"
            elif kinds == 1:
                yield f"{where}: all labels of {name} are equal: nothing can be learned; remove it"
            yield from path_errors(name, self.catalogue[name])
            if self.trial.needed:
                yield from content_errors(name, self.catalogue[name])
        datasets = self._value((*place, "datasets")) if infinite else ()
        yield from self._activations((*place, "activations"), infinite=datasets)

    def _available(self, name: str) -> int | None:
        """Return the samples of a dataset, None where only its files tell, or where these fail."""
        if self.trial.needed and any(content_errors(name, self.catalogue.get(name, {}))):
            return None
        return self.shapes.get(name, (None, None))[0]

    def _enough(self, samples: Any, name: str, *place: str) -> Iterator[str]:
        """Yield a line if a dataset has not so many samples."""
        available = self._available(name)
        if samples != "all" and available is not None and samples > available:
            excess = f"{samples} is more than the {available} samples of {name}"
            yield f"{self.at(*place)}: {excess}; take at most {available}"

    def _grid(self, _study: str) -> Iterator[str]:
        yield from self._names(infinite=bool({"infinite_ntk", "nngp"} & {*self.config["kernels"]}))
        config, used = self.config, used_datasets(self.config)
        for name, exception in config["overrides"].items():
            if name not in used:
                advice = did_you_mean(name, used)
                yield f"{self.at('overrides', name)}: no dataset of this run; {advice}"
            elif "frames" in exception and self.catalogue.get(name, {}).get("reader") != SPEECH:
                where = self.at("overrides", name, "frames")
                yield f"{where}: {name} is no speech corpus; remove frames"
        for name in config["datasets"]:
            exception = config["overrides"].get(name, {})
            yield from self._blocks(name, {**config, **exception}, exception, ("overrides", name))

    def _activation_study(self, study: str) -> Iterator[str]:
        yield from self._names((study,), infinite=True)
        values = {"samples": "all", "balanced": False, **self.config[study]}
        for name in self.config[study]["datasets"]:
            yield from self._blocks(name, values, values, (study,))

    def _blocks(
        self, name: str, values: Config, nested: Collection[str], place: tuple[str, ...]
    ) -> Iterator[str]:
        """Yield lines for subsets and blocks that a dataset of known size cannot give.

        Keys that are ``nested`` stand in ``place``, others at the top of the config.
        """

        def where(key: str) -> tuple[str, ...]:
            return (*place, key) if key in nested else (key,)

        samples, size, blocks = values["samples"], values["kernel_size"], values["blocks"]
        available = self._available(name)
        n = available if samples == "all" else samples
        if values["balanced"] and samples == "all":
            at = self.at(*where("balanced"))
            yield f"{at}: {name} is whole (samples all); give samples a number to draw"
        if size == "all" and blocks not in ("all", 1):
            at = self.at(*where("blocks"))
            yield f"{at}: kernel_size all makes one block of {name}; set it to 1"
        if too_many := [*self._enough(samples, name, *where("samples"))]:
            yield from too_many
        elif available is None or size == "all":
            return
        elif size > n:
            at = self.at(*where("kernel_size"))
            yield f"{at}: a block of {size} is larger than {name} ({n} samples); at most {n}"
        elif blocks != "all" and blocks * size > n:
            need = f"{blocks} disjoint blocks of {size} need {blocks * size} samples"
            yield f"{self.at(*where('blocks'))}: {need} and {name} has {n}; at most {n // size}"

    def _bounds_study(self, study: str) -> Iterator[str]:
        yield from self._names((study,), infinite=True)
        for index, name in enumerate(self.config[study]["datasets"]):
            if not self._on_sphere(name):
                where = self.at(study, "datasets", index)
                yield f"{where}: {name} is not on the unit sphere; take one with scaling unit_norm"
            yield from self._enough(self.config[study]["samples"], name, study, "samples")

    def _phase_study(self, study: str) -> Iterator[str]:
        yield from self._names((study,), infinite=True)
        for index, name in enumerate(self.config[study]["datasets"]):
            if self.shapes.get(name, (None, None))[1] == 1:
                where = self.at(study, "datasets", index)
                yield f"{where}: {name} has one feature, and on the sphere two places; remove it"
        if "activations" in (self.config[study]["large"] or ()):
            yield from self._activations((study, "large", "activations"))

    def _finite_width_study(self, study: str) -> Iterator[str]:
        yield from self._names((study,), infinite=True)
        for name in self.config[study]["datasets"]:
            yield from self._enough(max(self.config[study]["samples"]), name, study, "samples")

    def _repairs_study(self, study: str) -> Iterator[str]:
        yield from self._names((study,), labels="predicted steps need them")
        for index, name in enumerate(self.config[study]["datasets"]):
            yield from self._enough(self.config[study]["samples"], name, study, "samples")
            d = self.shapes.get(name, (None, None))[1]
            most = min(self.config[study]["samples"], d or math.inf) - 1
            where = self.at(study, "datasets", index)
            if not most:
                yield f"{where}: {name} has one feature, and no direction to leave out; remove it"
            elif max(self.config[study]["directions"]) > most:
                yield f"{where}: {name} has at most {most} top directions; take fewer directions"

    def _architectures_study(self, key: str) -> Iterator[str]:
        study = self.config[key]
        yield from self._names((key,))
        seeing = [name for name in study["models"] if kind_of(name).needs_images]
        for index, name in enumerate(study["datasets"]):
            yield from self._enough(study["samples"], name, key, "samples")
            if seeing and not self.images.get(name, True):
                where = self.at(key, "datasets", index)
                yield f"{where}: {seeing[0]} needs images, {name} has none; remove one of them"
        for name in set(study["overrides"]) - {*MODELS, *self.models}:
            advice = did_you_mean(name, study["models"])
            yield f"{self.at(key, 'overrides', name)}: unknown network {name!r}; {advice}"
        for index, name in enumerate(study["models"]):
            where = self.at(key, "models", index)
            if name not in MODELS and name not in self.models:
                advice = did_you_mean(name, [*MODELS, *self.models])
                yield f"{where}: unknown network {name!r}; {advice}"
                continue
            of = {**study, **study["overrides"].get(name, {})}
            found = [(depth_problem(name, depth), depth) for depth in of["depths"]]
            found += [(width_problem(name, width), width) for width in of["widths"]]
            for problem, given in found:
                if problem:
                    yield f"{where}: {problem}, not {given}; give it overrides"
            for width in of["widths"] if name in self.models else ():
                values = {**of, "width": width, "outputs": "scalar", "predict": False}
                yield from self._own_network((key,), index, name, {**values, "overrides": {}})

    def _width_study(self, key: str) -> Iterator[str]:
        study, architectures = self.config[key], self.config["architectures"]
        yield from self._names((key,), labels="the study needs two classes")
        for index, name in enumerate(study["architectures"]):
            if name not in architectures:
                where = self.at(key, "architectures", index)
                yield f"{where}: unknown architecture {name!r}; {did_you_mean(name, architectures)}"
            elif "m" not in architectures[name]["hidden"]:
                where = self.at("architectures", name, "hidden")
                yield f"{where}: no width of {name} is m, the one that varies; put m in"
        for name in study["datasets"]:
            yield from self._enough(study["samples"], name, key, "samples")
        if study.get("expansions", 1) > study["samples"]:
            excess = f"{study['expansions']} is more than the {study['samples']} samples"
            yield f"{self.at(key, 'expansions')}: {excess} of the study; take fewer"

    def _training(self, experiment: str, values: Config) -> Iterator[str]:
        place, overrides = ("training", experiment), values["overrides"]
        yield from self._names(place, labels="training needs them")
        if values["loss"] == "cross_entropy" and values["outputs"] == "scalar":
            where = self.at(*place, "outputs")
            yield f"{where}: cross_entropy needs outputs classes; give them, or loss square"
        # Not only those of the experiment: an overlay cannot take an exception back.
        for name, exception in overrides.items():
            where = self.at(*place, "overrides", name)
            if name in MODELS or name in self.models:
                for key in sorted(set(exception) - set(MODEL_EXCEPTIONS)):
                    allowed = ", ".join(MODEL_EXCEPTIONS)
                    yield f"{where}.{key}: {key} is a dataset's; those of a model are {allowed}"
            elif name not in self.catalogue:
                advice = did_you_mean(name, [*self.catalogue, *MODELS, *self.models])
                yield f"{where}: unknown dataset {name!r}; {advice}"
        for name in values["datasets"]:
            own = "samples" in overrides.get(name, {})
            key = ("overrides", name, "samples") if own else ("samples",)
            samples = overrides[name]["samples"] if own else values["samples"]
            yield from self._enough(samples, name, *place, *key)
            n = self._available(name) if samples == "all" else samples
            held = round(values["test_share"] * n) if n else 1
            if n and values["test_share"] and self._has_no_test(name) and not 0 < held < n - 1:
                where = self.at(*place, "test_share")
                yield (
                    f"{where}: {values['test_share']:g} of the {n} samples of {name} is {held}; "
                    "leave 2 to train on and 1 to test on"
                )
        if values["mixed_precision"] and values["dtype"] != "float32":
            where = self.at(*place, "mixed_precision")
            yield f"{where}: needs dtype float32, not {values['dtype']}"
        for index, name in enumerate(values["models"]):
            if name not in MODELS and name not in self.models:
                advice = did_you_mean(name, [*MODELS, *self.models])
                yield f"{self.at(*place, 'models', index)}: unknown network {name!r}; {advice}"
                continue
            check = self._modules if kind_of(name).by_modules else self._plain
            yield from check(place, index, name, values)
            if name in self.models:
                yield from self._own_network(place, index, name, values)
        augmented = values["augmentation"] != "none"
        seeing = [name for name in values["models"] if kind_of(name).needs_images]
        for index, name in enumerate(values["datasets"]):
            if name not in self.catalogue:
                continue
            if (seeing or augmented) and self.images[name] is None:
                need = "augmentation" if augmented else seeing[0]
                yield (
                    f"{self.at(*place, 'datasets', index)}: {need} needs images, {name} has none; "
                    "give its catalogue entry image: [height, width, colours]"
                )
            tested = values["test_share"] > 0 or not self._has_no_test(name)
            if values["criterion"] == "test_accuracy" and not tested:
                where = self.at(*place, "criterion")
                yield f"{where}: {name} has no test samples; give a test_share or another criterion"

    def _has_no_test(self, name: str) -> bool:
        """Return whether a dataset has no test samples of its own."""
        return "test_x" not in self.catalogue.get(name, {}).get("files", {})

    def _plain(self, place: Place, _index: int, name: str, values: Config) -> Iterator[str]:
        """Yield lines for what only modules are trained with."""
        for key in BEYOND_PLAIN:
            if values[key] != self.plain[key]:
                remedy = f"leave it at {self.plain[key]!r}, or give {name} its own experiment"
                yield f"{self.at(*place, key)}: {name} has momentum only; {remedy}"

    def _modules(self, place: Place, index: int, name: str, values: Config) -> Iterator[str]:
        """Yield lines for what a model of torch's modules cannot have."""
        where, overrides = self.at(*place, "models", index), values["overrides"]
        for dataset in values["datasets"]:
            for depth in overrides.get(dataset, {}).get("depths", values["depths"]):
                if problem := depth_problem(name, depth):
                    yield f"{where}: {problem}, not {depth}; correct depths"
        if kind_of(name).normalization == "batch":
            if values["predict"]:
                yield self._unpredictable(place, name)
            yield from self._lonely_samples(place, name, values)
        if problem := width_problem(name, values["width"]):
            yield f"{where}: {problem}, not {values['width']}; correct width"

    def _lonely_samples(self, place: Place, name: str, values: Config) -> Iterator[str]:
        """Yield a line for a dataset whose epochs end with a step of a single sample."""
        overrides = values["overrides"]
        for dataset in values["datasets"]:
            of = {**values, **overrides.get(dataset, {}), **overrides.get(name, {})}
            n = self._available(dataset) if of["samples"] == "all" else of["samples"]
            if n and self._has_no_test(dataset):
                n -= round(of["test_share"] * n)
            if n and of["batch_size"] != "all" and n % of["batch_size"] == 1:
                yield (
                    f"{self.at(*place, 'batch_size')}: an epoch of {name} on the {n} samples of "
                    f"{dataset} ends with a step of one; take another size"
                )

    def _unpredictable(self, place: Place, name: str) -> str:
        return f"{self.at(*place, 'predict')}: {name}: {UNPREDICTABLE}; switch it off"

    def _own_network(self, place: Place, index: int, name: str, values: Config) -> Iterator[str]:
        """Yield a line if a network of the user's own cannot be built and trained as it is used."""
        known = [sigma for sigma in values["activations"] if activations.is_known(sigma)]
        for dataset in values["datasets"]:
            d, image = self.shapes.get(dataset, (None, None))[1], self.images.get(dataset)
            if d is None or not known:
                continue
            for depth in values["overrides"].get(dataset, {}).get("depths", values["depths"]):
                size: Any = {"d": d, "image": image, "depth": depth, "width": values["width"]}
                outputs = ANY_CLASSES if values["outputs"] == "classes" else 1
                size |= {"outputs": outputs, "predict": values["predict"]}
                files = self.config["activation_files"]
                own = self.models[name]
                try:
                    mixed = self.trial.trainable(
                        str(own.file), own.function, known[0], plugins=files, **size
                    )
                except UserError as error:
                    yield f"{self.at(*place, 'models', index)}: {name} on {dataset}: {error}"
                    return
                if mixed:
                    yield self._unpredictable(place, name)
                    return
