"""What the user may write: every mistake in config and catalogues, all at once, one line each.

Pure functions on mappings; `common.smk` calls `check` before any rule is defined.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Layer:
    """One source of configuration, for telling the user where a value came from."""

    name: str
    values: Config


#: Studies of the networks in architectures.
ASSEMBLY_STUDIES = ("orthogonality_study", "linearity_study")

#: The reader of datasets whose samples are frames drawn from recordings.
SPEECH = "librispeech"


class Integer:
    """YAML's 1.0 is a float; JSON Schema alone would let it pass as an integer."""

    @staticmethod
    def check(_checker: object, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)


_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", Integer.check),
)


# libyaml's, where PyYAML was built with it: papers' claims are thousands of lines.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file.

    Raises:
        ValueError: one line with the file and the position, if it cannot be read.
    """
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_LOADER)
    except FileNotFoundError as error:
        raise ValueError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise ValueError(
            f"{path}:{line} not valid YAML: {getattr(error, 'problem', error)}"
        ) from error


def typed(value: Any) -> Any:
    """Return a value of --config with numbers in its lists and mappings.

    Snakemake reads ``--config depths=[0,1]`` as texts: ``['0', '1']``.

    >>> typed(["0", "1.5", "all", "digits"])
    [0, 1.5, 'all', 'digits']
    """
    if isinstance(value, Mapping):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return yaml.safe_load(value) if isinstance(value, str) else value


def schema_errors(values: Any, schema: Config, origin: Sequence[Layer]) -> list[str]:
    """Return a line for everything in ``values`` that the schema forbids."""
    found = sorted(_Validator(schema).iter_errors(values), key=lambda e: list(map(str, e.path)))
    return [line for error in found for line in _explain(error, origin)]


def _explain(error: jsonschema.ValidationError, origin: Sequence[Layer]) -> Iterator[str]:
    path = list(error.absolute_path)
    where = f"{source_of(path, origin)}: {key_name(path)}"
    rule, allowed, value = error.validator, error.validator_value, error.instance
    if rule == "additionalProperties":
        known = list(error.schema.get("properties", {}))
        for name in sorted(set(map(str, value)) - set(known)):
            place = [*path, name]
            yield (
                f"{source_of(place, origin)}: unknown key {key_name(place)!r}; "
                f"{did_you_mean(name, known)}"
            )
    elif rule == "required":
        missing = [name for name in allowed if name not in value]
        yield f"{where}: missing {', '.join(missing)}"
    elif rule == "enum":
        yield f"{where}: {value!r} is not one of {', '.join(map(str, allowed))}"
    elif rule == "type":
        names = [allowed] if isinstance(allowed, str) else allowed
        yield f"{where}: {value!r} is not {' or '.join(_TYPES[name] for name in names)}"
    elif rule == "anyOf" and isinstance(value, list | dict) and (inner := _inside(error)):
        for mistake in inner:  # of the alternative that is a list, or a mapping
            yield from _explain(mistake, origin)
    elif rule == "anyOf":
        yield f"{where}: {value!r} is not {' or '.join(map(_alternative, allowed))}"
    elif rule == "uniqueItems":
        repeated = sorted({str(item) for item in value if value.count(item) > 1})
        yield f"{where}: {', '.join(repeated)} stands there more than once; remove the repetition"
    elif rule == "minItems":
        found = f"the list has only {len(value)}" if value else "the list is empty"
        yield f"{where}: {found}; give at least {allowed} item{'s' if allowed > 1 else ''}"
    elif rule == "minimum":
        yield f"{where}: {value!r} is too small; the least is {allowed}"
    elif rule == "exclusiveMinimum":
        yield f"{where}: {value!r} is too small; it must be above {allowed}"
    elif rule == "maximum":
        yield f"{where}: {value!r} is too large; the most is {allowed}"
    elif rule == "exclusiveMaximum":
        yield f"{where}: {value!r} is too large; it must be below {allowed}"
    elif rule == "const":
        yield f"{where}: {value!r} is not {allowed!r}, the only value that it can have"
    elif rule == "pattern":
        yield f"{where}: {value!r} is not a plain name (lower-case letters, digits, _ . -)"
    else:
        yield f"{where}: {error.message}"


def _inside(error: jsonschema.ValidationError) -> list[jsonschema.ValidationError]:
    """Return the errors of the alternatives whose type the value has."""
    other = {e.schema_path[0] for e in error.context if e.validator in ("type", "const")}
    return [e for e in error.context if e.schema_path[0] not in other or len(e.path)]


_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "boolean": "true or false",
    "array": "a list [...]",
    "object": "a mapping {...}",
    "null": "null",
}


def _alternative(schema: Config) -> str:
    if "const" in schema:
        return f"{schema['const']!r}"
    least = f" of at least {schema['minimum']}" if "minimum" in schema else ""
    return _TYPES.get(schema.get("type", ""), "a value as the schema says") + least


def key_name(path: Iterable[str | int]) -> str:
    """Return a key's path as users write it.

    >>> key_name(["overrides", "digits", "depths", 0])
    'overrides.digits.depths[0]'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the file"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return advice on a name that is not known."""
    known = sorted(known)
    close = [other for other in known if other.startswith(name)]
    close = close or difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def source_of(path: Sequence[str | int], layers: Sequence[Layer]) -> str:
    """Return the name of the last layer that sets a key; lists are set as a whole."""
    keys = [part for part in path if isinstance(part, str)]
    for layer in reversed(layers):
        here: Any = layer.values
        for key in keys:
            if not isinstance(here, Mapping) or key not in here:
                break
            here = here[key]
        else:
            return layer.name
    return layers[0].name if layers else "config"


def load_catalogues(paths: Iterable[str], schema: Config) -> tuple[dict[str, Any], list[str]]:
    """Return the stacked catalogue entries by name, and a line for every mistake in the files."""
    entries: dict[str, Any] = {}
    problems = []
    for path in paths:
        try:
            values = read_yaml(path)
        except ValueError as error:
            problems.append(str(error))
            continue
        problems += schema_errors(values, schema, [Layer(str(path), {})])
        if isinstance(values, Mapping):
            entries.update(values)
    return entries, problems


def training_defaults(schema: Config) -> dict[str, Any]:
    """Return the keys that an experiment may leave out, with what they are then."""
    keys = schema["properties"]["training"]["additionalProperties"]["properties"]
    return {key: value["default"] for key, value in keys.items() if "default" in value}


@dataclass(frozen=True)
class Known:
    """What names in the config may refer to."""

    catalogue: Mapping[str, Any]
    figures: Mapping[str, Any]
    is_activation: Any
    activations: Sequence[str]
    samples: Mapping[str, int | None]
    images: Collection[str]
    speech: Collection[str]
    models: Mapping[str, Any]
    depth_problem: Any
    optional: Mapping[str, Any]


def grid_errors(config: Config, known: Known, layers: Sequence[Layer]) -> list[str]:
    """Return a line for every combination in the config that cannot be computed."""

    def at(*path: str | int) -> str:
        return f"{source_of(path, layers)}: {key_name(path)}"

    problems = []
    study = config["activation_study"]
    for name in ("", "activation_study", "bounds_study", *ASSEMBLY_STUDIES):
        prefix, values = ((name,), config[name]) if name else ((), config)
        for index, name in enumerate(values["datasets"]):
            if name not in known.catalogue:
                advice = did_you_mean(name, known.catalogue)
                problems.append(
                    f"{at(*prefix, 'datasets', index)}: unknown dataset {name!r}; {advice}"
                )
        problems += _activation_errors((*prefix, "activations"), values["activations"], known, at)

    problems += _activation_errors(
        ("activation_constants",), config["activation_constants"], known, at
    )
    problems += _training_errors(config, known, at)
    problems += _bounds_errors(config["bounds_study"], known, at)
    problems += _assembly_errors(config, known, at)
    used = used_datasets(config)
    for name in config["overrides"]:
        if name not in used:
            problems.append(
                f"{at('overrides', name)}: no dataset of this run; {did_you_mean(name, used)}"
            )
        elif "frames" in config["overrides"][name] and name not in known.speech:
            problems.append(
                f"{at('overrides', name, 'frames')}: {name} is no speech corpus; frames are drawn "
                "of datasets with reader librispeech"
            )
    problems += _file_errors({name: known.catalogue.get(name, {}) for name in used})
    for name in used:
        problems += _path_errors(name, known.catalogue.get(name, {}))
    for name in dict.fromkeys([*config["datasets"], *study["datasets"]]):
        problems += _block_errors(name, config, known.samples.get(name), at)

    for index, name in enumerate(config["figures"]):
        if name not in known.figures:
            advice = did_you_mean(name, known.figures)
            problems.append(f"{at('figures', index)}: unknown figure {name!r}; {advice}")
            continue
        for key, choices in known.figures[name].get("needs", {}).items():
            have = list(config[key]) if isinstance(config[key], list | dict) else [config[key]]
            if not set(choices) & set(have):
                problems.append(
                    f"{at('figures', index)}: {name} needs {' or '.join(map(str, choices))} in "
                    f"{key!r}, which is {have!r}; add it there or remove the figure"
                )
    return problems


def used_datasets(config: Config) -> list[str]:
    """Return the datasets of a run, each once."""
    return list(
        dict.fromkeys(
            [
                *config["datasets"],
                *config["activation_study"]["datasets"],
                *config["bounds_study"]["datasets"],
                *(name for study in ASSEMBLY_STUDIES for name in config[study]["datasets"]),
                *(name for values in config["training"].values() for name in values["datasets"]),
            ]
        )
    )


def _activation_errors(
    place: tuple[str, ...], names: Sequence[str], known: Known, at: Any
) -> Iterator[str]:
    for index, name in enumerate(names):
        if not known.is_activation(name):
            advice = did_you_mean(name, known.activations)
            yield f"{at(*place, index)}: unknown activation {name!r}; {advice}"


def _training_errors(config: Config, known: Known, at: Any) -> Iterator[str]:
    """Yield lines for networks that cannot be trained."""
    for experiment, values in config["training"].items():
        place = ("training", experiment)
        yield from _activation_errors((*place, "activations"), values["activations"], known, at)
        if values["loss"] == "cross_entropy" and values["outputs"] == "scalar":
            yield (
                f"{at(*place, 'outputs')}: cross_entropy needs an output for each class; give "
                "outputs classes, or loss square"
            )
        # Not only those of the experiment: an overlay cannot take an exception back.
        for name, own in values["overrides"].items():
            where = at(*place, "overrides", name)
            if name in known.models:
                for key in sorted(set(own) - set(MODEL_EXCEPTIONS)):
                    yield (
                        f"{where}.{key}: {name} is a model, and its exceptions are of "
                        f"{', '.join(MODEL_EXCEPTIONS)}; give {key} for a dataset"
                    )
            elif name not in known.catalogue:
                advice = did_you_mean(name, [*known.catalogue, *known.models])
                yield f"{where}: unknown dataset {name!r}; {advice}"
        yield from _module_errors(experiment, values, known, at)
        for index, name in enumerate(values["datasets"]):
            where = at(*place, "datasets", index)
            if name not in known.catalogue:
                yield f"{where}: unknown dataset {name!r}; {did_you_mean(name, known.catalogue)}"
                continue
            if known.catalogue[name]["reader"] == "gaussian":
                yield f"{where}: {name} has no labels, and training needs them; remove it"
            own = values["overrides"].get(name, {})
            samples, available = own.get("samples", values["samples"]), known.samples.get(name)
            if samples != "all" and available is not None and samples > available:
                key = ("overrides", name, "samples") if "samples" in own else ("samples",)
                yield (
                    f"{at(*place, *key)}: {samples} is more than the {available} samples of "
                    f"{name}; use all"
                )


#: What an experiment's exception for a model can be of.
MODEL_EXCEPTIONS = ("batch_size", "epochs", "learning_rates")

#: Keys that mean nothing to the networks that are trained without torch's modules.
MODULE_KEYS = (
    "momentum",
    "weight_decay",
    "decay_at",
    "decay_factor",
    "augmentation",
    "mixed_precision",
)


def _module_errors(experiment: str, values: Config, known: Known, at: Any) -> Iterator[str]:
    """Yield lines for what does not go with the models of an experiment."""
    place = ("training", experiment)
    given = {**known.optional, **values}
    own = values["overrides"]
    if given["mixed_precision"] and values["dtype"] != "float32":
        yield f"{at(*place, 'mixed_precision')}: needs dtype float32, not {values['dtype']}"
    images = given["augmentation"] != "none"
    for index, name in enumerate(values["models"]):
        model, where = known.models[name], at(*place, "models", index)
        images = images or model.needs_images
        if not model.by_modules:
            for key in MODULE_KEYS:
                if given[key] != known.optional[key]:
                    yield (
                        f"{at(*place, key)}: {name} is trained by plain gradient descent; leave it "
                        f"at {known.optional[key]!r}, or take {name} to an experiment of its own"
                    )
            continue
        rates = {"": values["learning_rates"]} | {
            exception: own[exception]["learning_rates"]
            for exception in own
            if "learning_rates" in own[exception]
        }
        if any(not isinstance(rate, list) for rate in rates.values()) and not isinstance(
            rates.get(name), list
        ):
            yield (
                f"{where}: critical learning rates are known of mlp only; give {name} a list of "
                f"learning_rates, there or in {key_name([*place, 'overrides', name])}"
            )
        for dataset in values["datasets"]:
            for depth in own.get(dataset, {}).get("depths", values["depths"]):
                if problem := known.depth_problem(name, depth):
                    yield f"{where}: {problem}, not {depth}; correct depths"
    for index, name in enumerate(values["datasets"]):
        where = at(*place, "datasets", index)
        if name not in known.catalogue:
            continue
        if images and name not in known.images:
            what = "augmentation" if given["augmentation"] != "none" else "resnets"
            yield (
                f"{where}: {what} need images, and of {name} no image shape is known; give its "
                "catalogue entry image: [height, width, colours], or take another dataset"
            )
        tested = "test_x" in known.catalogue[name].get("files", {}) or given["test_share"] > 0
        if values["criterion"] == "test_accuracy" and not tested:
            yield (
                f"{at(*place, 'criterion')}: {name} has no test samples; give a test_share, or "
                "another criterion"
            )


def _bounds_errors(study: Config, known: Known, at: Any) -> Iterator[str]:
    """Yield lines for datasets that bounds on the unit sphere cannot be compared on."""
    for index, name in enumerate(study["datasets"]):
        if name not in known.catalogue:
            continue  # which is told already
        if known.catalogue[name]["scaling"] != "unit_norm":
            yield (
                f"{at('bounds_study', 'datasets', index)}: {name} is not on the unit sphere; take "
                "a dataset with scaling unit_norm"
            )
        available, samples = known.samples.get(name), study["samples"]
        if samples != "all" and available is not None and samples > available:
            yield (
                f"{at('bounds_study', 'samples')}: {samples} is more than the {available} samples "
                f"of {name}; use all"
            )


def _assembly_errors(config: Config, known: Known, at: Any) -> Iterator[str]:
    """Yield lines for networks and samples that the studies of assemblies cannot have."""
    for name, architecture in config["architectures"].items():
        if "m" not in architecture["hidden"]:
            yield (
                f"{at('architectures', name, 'hidden')}: no width of {name} is m, the one that "
                "varies; put m in"
            )
    for study in ASSEMBLY_STUDIES:
        values = config[study]
        for index, name in enumerate(values["architectures"]):
            where = at(study, "architectures", index)
            if name not in config["architectures"]:
                advice = did_you_mean(name, config["architectures"])
                yield f"{where}: unknown architecture {name!r}; {advice}"
        for index, name in enumerate(values["datasets"]):
            if name not in known.catalogue:
                continue  # which is told already
            if known.catalogue[name]["reader"] == "gaussian":
                yield (
                    f"{at(study, 'datasets', index)}: {name} has no labels, and the study needs "
                    "two classes; remove it"
                )
            available = known.samples.get(name)
            if available is not None and values["samples"] > available:
                yield (
                    f"{at(study, 'samples')}: {values['samples']} is more than the {available} "
                    f"samples of {name}; take fewer"
                )
        if values.get("expansions", 1) > values["samples"]:
            yield (
                f"{at(study, 'expansions')}: {values['expansions']} is more than the "
                f"{values['samples']} samples of the study; take fewer"
            )


def _file_errors(entries: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines for datasets of one run that need different files of the same name."""
    owners: dict[str, tuple[str, Any]] = {}
    for dataset, entry in entries.items():
        for file in entry.get("files", {}).values():
            name, content = file["name"], file["sha256"]
            owner, expected = owners.setdefault(name, (dataset, content))
            if content != expected:
                yield (
                    f"catalogue: {dataset} and {owner} need different files of the name {name}; "
                    "use them in runs of their own, with different data_dir"
                )
                break


def _path_errors(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines for files and folders of the user's own that a dataset lacks."""
    places = {"path": entry.get("path")}
    places["options.alignments"] = entry.get("options", {}).get("alignments")
    for key, path in places.items():
        if path is not None and not Path(path).exists():
            yield (
                f"catalogue: {name}.{key}: {path} does not exist; give a path that is absolute or "
                "relative to the working directory"
            )


def _block_errors(name: str, config: Config, available: int | None, at: Any) -> Iterator[str]:
    """Yield lines for subsets and blocks that a dataset of known size cannot give."""
    own = config["overrides"].get(name, {})
    keys = ("samples", "balanced", "kernel_size", "blocks")
    values = {key: own.get(key, config[key]) for key in keys}

    def place(key: str) -> str:
        return at("overrides", name, key) if key in own else at(key)

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


def speech_frames(name: str, config: Config) -> Any:
    """Return how many frames are drawn from a speech corpus: a number, or all."""
    return config["overrides"].get(name, {}).get("frames", config["speech"]["frames"])


def shape_of(name: str, entry: Config, config: Config, known_shape: Any) -> Any:
    """Return samples and features of a dataset; None for what is not known before its files are.

    ``known_shape`` is that of `datasets`; the frames of speech are the config's.
    """
    if entry["reader"] != SPEECH:
        return known_shape(entry) or (None, None)
    frames, speech = speech_frames(name, config), config["speech"]
    stacked = speech["stack_left"] + 1 + speech["stack_right"]
    return None if frames == "all" else frames, speech["num_mel_bins"] * stacked


def check(
    config: Config,
    *,
    layers: Sequence[Layer],
    schema: Config,
    catalogue_schema: Config,
    figures: Mapping[str, Any],
    activations: Any,
    known_shape: Any,
    known_image: Any,
    architectures: Any,
) -> dict[str, Any]:
    """Return the catalogue of a config in which nothing is wrong.

    Raises:
        ValueError: with one line for each mistake.
    """
    problems = schema_errors(config, schema, layers)
    if problems:
        raise ValueError("\n".join(problems))
    catalogue, problems = load_catalogues(config["catalogues"], catalogue_schema)
    for path in config["activation_files"]:
        try:
            activations.load_plugin(path)
        except ValueError as error:
            problems.append(f"{source_of(['activation_files'], layers)}: activation_files: {error}")
    if not problems:
        used = used_datasets(config)
        known = Known(
            catalogue=catalogue,
            figures=figures,
            is_activation=activations.is_known,
            activations=activations.names(),
            speech=[name for name, entry in catalogue.items() if entry["reader"] == SPEECH],
            images=[name for name, entry in catalogue.items() if known_image(entry)],
            models=architectures.MODELS,
            depth_problem=architectures.depth_problem,
            optional=training_defaults(schema),
            samples={
                name: shape_of(name, catalogue[name], config, known_shape)[0]
                for name in used
                if name in catalogue
            },
        )
        problems = grid_errors(config, known, layers)
    if problems:
        raise ValueError("\n".join(problems))
    return catalogue
