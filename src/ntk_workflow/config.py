"""What users write: YAML files, the schema with its defaults, and every mistake as one line."""

import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from ntk_conditioning.errors import UserError, one_line

Config = Mapping[str, Any]

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"

#: Lists of numbers whose order means nothing, by their keys.
UNORDERED = (
    *("depths", "seeds", "widths", "samples", "samples_per_dimension", "directions", "radii"),
    *("equicorrelated", "two_clusters", "power_law", "label_scales", "steps", "decay_at"),
    *("learning_rates", "critical", "smallest_critical"),
)

# libyaml's, where PyYAML was built with it: papers' claims are thousands of lines.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBERS = {
    "int": r"[-+]?(0|[1-9]\d*)",
    "float": r"[-+]?(\d+\.\d*|\.\d+)([eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+|[-+]?\.inf|\.nan",
}


class LOADER(_Loader):  # type: ignore[misc]
    """Reads 1e-3 as a number; 010, 1:30 and 2001-01-02, other numbers to YAML 1.1, are texts."""


LOADER.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0].split(":")[-1] in ("bool", "null", "merge")]
    for first, pairs in _Loader.yaml_implicit_resolvers.items()
}
for _tag, _pattern in _NUMBERS.items():
    LOADER.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"({_pattern})$"), list("-+.0123456789")
    )


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file; `UserError`, with file and line, if it is none."""
    try:
        return parse_yaml(Path(path).read_bytes().decode("utf-8"), str(path))
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}: line {line} is not UTF-8; is it a text file?") from error


def parse_yaml(text: str, name: str) -> Any:
    """Return the content of YAML that a file called ``name`` has; errors as `read_yaml`."""
    try:
        loader = LOADER(text)
        root = loader.get_single_node()
        _require_keys(root)
        return None if root is None else loader.construct_document(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or one_line(error)
        raise UserError(f"{name}:{where} not valid YAML: {problem}") from error


def _require_keys(node: yaml.Node | None) -> None:
    """Refuse keys that are repeated, of which YAML would take the last, or no texts."""
    values = node.value if isinstance(node, yaml.CollectionNode) else []
    lines: dict[str, int] = {}
    for key, value in values if isinstance(node, yaml.MappingNode) else ():
        problem = ""
        if key.tag.split(":")[-1] not in ("str", "merge"):
            problem = "this key is no text; put it in quotes"
        elif key.value in lines:
            problem = f"the key {key.value!r} is in line {lines[key.value]} already"
        if problem:
            raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
        lines[key.value] = key.start_mark.line + 1
        _require_keys(value)
    for item in values if isinstance(node, yaml.SequenceNode) else ():
        _require_keys(item)


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
