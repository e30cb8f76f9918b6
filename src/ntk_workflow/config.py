"""Reading what users write: YAML, defaults, and every mistake as one line with file and key."""

import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from ntk_conditioning.errors import UserError

Config = Mapping[str, Any]

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


@dataclass(frozen=True)
class Layer:
    """One source of configuration, for telling the user where a value came from."""

    name: str
    values: Config


# YAML's 1.0 is a float; JSON Schema alone would let it pass as an integer.
_WHOLE = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _, value: type(value) is int
)
_Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=_WHOLE)
# libyaml's, where PyYAML was built with it: papers' claims are thousands of lines.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file.

    Raises:
        UserError: one line with the file and the position, if it cannot be read.
    """
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), Loader=LOADER)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", error)
        raise UserError(f"{path}:{line} not valid YAML: {problem}") from error


def located(path: str, home: str) -> str:
    """Return where a file is that a user names: in the working folder, or else in ``home``.

    ``home`` is the folder of the workflow, with a slash, or empty if one works in it.
    """
    elsewhere = str(Path(home, path))  # an absolute path as it is
    return elsewhere if not Path(path).exists() and Path(elsewhere).exists() else path


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
    errors = sorted(_Validator(schema).iter_errors(values), key=lambda e: list(map(str, e.path)))
    # Each key that is missing is an error of its own, whose line names them all.
    return list(dict.fromkeys(line for error in errors for line in _explain(error, origin)))


_LIMITS = {
    "minimum": "{value!r} is too small; the least is {limit}",
    "exclusiveMinimum": "{value!r} is too small; it must be above {limit}",
    "maximum": "{value!r} is too large; the most is {limit}",
    "exclusiveMaximum": "{value!r} is too large; it must be below {limit}",
    "const": "{value!r} is not {limit!r}, the only value that it can have",
}
_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "boolean": "true or false",
    "array": "a list [...]",
    "object": "a mapping {...}",
    "null": "null",
}


def _explain(error: jsonschema.ValidationError, origin: Sequence[Layer]) -> Iterator[str]:
    path, value = list(error.absolute_path), error.instance
    if error.validator == "additionalProperties":
        known = list(error.schema.get("properties", {}))
        for name in sorted(set(map(str, value)) - set(known)):
            place = [*path, name]
            advice = did_you_mean(name, known)
            yield f"{source_of(place, origin)}: unknown key {key_name(place)!r}; {advice}"
    elif (
        error.validator == "anyOf" and isinstance(value, list | dict) and (inner := _inside(error))
    ):
        for mistake in inner:  # of the alternative that is a list, or a mapping
            yield from _explain(mistake, origin)
    else:
        yield f"{source_of(path, origin)}: {key_name(path)}: {_reason(error)}"


def _reason(error: jsonschema.ValidationError) -> str:
    rule, limit, value = error.validator, error.validator_value, error.instance
    if rule in _LIMITS:
        return _LIMITS[rule].format(value=value, limit=limit)
    if rule == "required":
        return f"missing {', '.join(name for name in limit if name not in value)}"
    if rule == "enum":
        return f"{value!r} is not one of {', '.join(map(str, limit))}"
    if rule == "type":
        names = [limit] if isinstance(limit, str) else limit
        return f"{value!r} is not {' or '.join(_TYPES[name] for name in names)}"
    if rule == "anyOf":
        return f"{value!r} is not {' or '.join(map(_alternative, limit))}"
    if rule == "uniqueItems":
        repeated = sorted({str(item) for item in value if value.count(item) > 1})
        return f"{', '.join(repeated)} stands there more than once; remove the repetition"
    if rule == "minItems":
        length = f"the list has only {len(value)}" if value else "the list is empty"
        return f"{length}; give at least {limit} item{'s' if limit > 1 else ''}"
    if rule == "pattern":
        lower = str(value).lower()
        takes = error.schema.get("description", "a plain name: lower-case letters, digits, _ . -")
        advice = f"did you mean {lower!r}?" if re.search(limit, lower) else f"it takes {takes}"
        return f"{value!r} does not fit; {advice}"
    return str(error.message)


def _inside(error: jsonschema.ValidationError) -> list[jsonschema.ValidationError]:
    """Return the errors of the alternatives whose type the value has."""
    other = {e.schema_path[0] for e in error.context if e.validator in ("type", "const")}
    return [e for e in error.context if e.schema_path[0] not in other or len(e.path)]


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
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the file"


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


def main(paths: Sequence[str]) -> int:
    """Name file and line of a config that is no YAML mapping, which Snakemake does not."""
    for path in paths:
        try:
            if not isinstance(read_yaml(path), Mapping):
                raise ValueError(f"{path}: not a mapping of keys; see config.yaml")
        except ValueError as error:
            sys.stderr.write(f"{error}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
