"""The config: its schema and defaults, and every mistake as one line with key and remedy."""

import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from ntk_conditioning.errors import UserError
from ntk_workflow.yaml_files import LOADER as LOADER
from ntk_workflow.yaml_files import parse_yaml as parse_yaml
from ntk_workflow.yaml_files import read_yaml as read_yaml

Config = Mapping[str, Any]

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"

#: Lists of numbers whose order means nothing, by their keys.
UNORDERED = (
    *("depths", "seeds", "widths", "samples", "samples_per_dimension", "directions", "radii"),
    *("equicorrelated", "two_clusters", "power_law", "label_scales", "steps", "decay_at"),
    *("learning_rates", "critical", "smallest_critical"),
)


def located(path: str, home: str) -> str:
    """Return where a file is that a user names: in the working folder, or else in ``home``.

    ``home`` is the folder of the workflow, with a slash, or empty if one works in it.
    """
    elsewhere = str(Path(home, path))  # an absolute path as it is
    return elsewhere if not Path(path).exists() and Path(elsewhere).exists() else path


def typed(value: Any) -> Any:
    """Return a value of --config with numbers in its lists and mappings.

    Snakemake reads ``--config depths=[0,1]`` as texts: ``['0', '1']``.

    >>> typed(["0", "1e-3", "all", "digits", "[1"])
    [0, 0.001, 'all', 'digits', '[1']
    """
    if isinstance(value, Mapping):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    try:
        return yaml.load(value, LOADER) if isinstance(value, str) else value
    except yaml.YAMLError:  # a text, of which its key will say that it does not fit
        return value


def with_defaults(values: Any, schema: Config, root: Config | None = None) -> Any:
    """Return a value with the defaults that its schema gives for keys that are absent.

    >>> keys = {"steps": {"default": 50}, "seed": {}}
    >>> with_defaults({"seed": 1}, {"properties": keys})
    {'steps': 50, 'seed': 1}
    """
    root = root or schema
    while "$ref" in schema:
        other = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        schema = {**other, **{key: each for key, each in schema.items() if key != "$ref"}}
    if not isinstance(values, Mapping):
        return values
    known, other = schema.get("properties", {}), schema.get("additionalProperties", {})
    other = other if isinstance(other, Mapping) else {}
    absent = {key: each["default"] for key, each in known.items() if "default" in each}
    given = {k: with_defaults(each, known.get(k, other), root) for k, each in values.items()}
    return {**absent, **given}


def canonical(value: Any, key: str = "") -> Any:
    """Return a value as all that mean the same are written, so that none of them reruns anything.

    >>> canonical({"depths": [2, 1.0], "hidden": [8, 4], "step_size": 0.5})
    {'depths': [1, 2], 'hidden': [8, 4], 'step_size': 0.5}
    """
    if isinstance(value, Mapping):
        return {name: canonical(item, name) for name, item in value.items()}
    if isinstance(value, list):
        items = [canonical(item) for item in value]
        return sorted(items) if key in UNORDERED else items
    return int(value) if isinstance(value, float) and value.is_integer() else value


def schema_errors(values: Any, schema: Config) -> list[str]:
    """Return a line for everything in ``values`` that the schema forbids, with key and remedy."""
    errors = jsonschema.Draft202012Validator(schema).iter_errors(values)
    by_key = sorted(errors, key=lambda error: list(map(str, error.absolute_path)))
    return list(dict.fromkeys(line for error in by_key for line in _lines(error)))


def _lines(error: jsonschema.ValidationError) -> Iterator[str]:
    path, value = list(error.absolute_path), error.instance
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        for name in value:
            if name not in known:
                advice = did_you_mean(str(name), known)
                yield f"unknown key {key_name([*path, name])!r}; {advice}"
    elif error.validator == "anyOf" and isinstance(value, list | dict) and (inner := _inner(error)):
        for each in inner:
            yield from _lines(each)
    else:
        yield f"{key_name(path)}: {_reason(error)}"


def _inner(error: jsonschema.ValidationError) -> list[jsonschema.ValidationError]:
    """Return the errors of those alternatives whose type the value has."""
    other = {e.schema_path[0] for e in error.context if e.validator in ("type", "const")}
    return [e for e in error.context if e.schema_path[0] not in other or len(e.path)]


def _reason(error: jsonschema.ValidationError) -> str:
    """Return jsonschema's message with a remedy, where there is one."""
    rule, expected, value = error.validator, error.validator_value, error.instance
    message: str = error.message
    if rule == "anyOf":
        return ", or ".join(dict.fromkeys(map(_reason, error.context)))
    remedy = ""
    if rule == "type" and "array" in expected and not isinstance(value, dict):
        remedy = f"; write [{value}]"
    elif rule == "enum" and (close := difflib.get_close_matches(str(value), map(str, expected), 1)):
        remedy = f"; did you mean {close[0]!r}?"
    elif rule == "maxProperties":
        remedy = f"; give {' or '.join(value)}"
    elif rule == "pattern":
        lower, takes = value.strip().lower(), error.schema.get("title", "other letters")
        fits = re.search(expected, lower)
        remedy = f"; did you mean {lower!r}?" if fits else f"; it takes {takes}"
    return message + remedy


def key_name(path: Iterable[str | int]) -> str:
    """Return a key's path as users write it.

    >>> key_name(["overrides", "digits", "depths", 0])
    'overrides.digits.depths[0]'
    """
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the file"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return advice on a name that is not known."""
    known = sorted(known)
    close = [other for other in known if other.startswith(name)]
    close = close or difflib.get_close_matches(name, known, n=1)
    names = ", ".join(known) if len(known) <= 50 else f"{', '.join(known[:50])} and others"
    return f"did you mean {close[0]!r}?" if close else f"known: {names}"


def main(paths: Sequence[str]) -> int:
    """Name file and line of a config that is no YAML mapping, which Snakemake does not.

    Nor does it say that a file with the key ``__use_yte__`` has expressions, which it runs.
    """
    for path in paths:
        try:
            content = read_yaml(path)
            if not isinstance(content, Mapping):
                raise UserError(f"{path}: not a mapping of keys; see config.yaml")
            if "__use_yte__" in content:
                raise UserError(f"{path}: __use_yte__: Snakemake would run its Python; remove it")
        except UserError as error:
            sys.stderr.write(f"{error}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
