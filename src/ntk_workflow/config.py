"""Reading what users write: YAML, defaults, and every mistake as one line with file and key."""

import difflib
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from ntk_conditioning.errors import UserError, one_line

Config = Mapping[str, Any]

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


@dataclass(frozen=True)
class Layer:
    """One source of configuration, for telling the user where a value came from."""

    name: str
    values: Config


#: The largest whole number that every program along the way takes.
LARGEST = 2**53


def _is_whole(_: Any, value: Any) -> bool:
    """YAML's 1.0 is a float; JSON Schema alone would let it pass as an integer."""
    return type(value) is int and value <= LARGEST


def _is_number(_: Any, value: Any) -> bool:
    """YAML has .nan, which no limit excludes, and .inf."""
    return type(value) in (int, float) and abs(value) < math.inf


def _pattern(_validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[Any]:
    """Compare with a pattern as JSON Schema means it: Python's $ admits a line break behind."""
    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


_Draft = jsonschema.Draft202012Validator
_Validator = jsonschema.validators.extend(
    _Draft,
    validators={"pattern": _pattern},
    type_checker=_Draft.TYPE_CHECKER.redefine_many({"integer": _is_whole, "number": _is_number}),
)
#: Mistakes that are listed at most.
MOST_LINES = 20

#: What a file may have at most: hand-written ones are far below, and hostile ones far above.
MOST_BYTES, MOST_VALUES, MOST_DEPTH, MOST_DIGITS = 2**21, 10**5, 50, 100
_NUMBER = re.compile(rf"[-+]?[0-9][\w.:+-]{{{MOST_DIGITS},}}")
_TEXT, _MERGE = (f"tag:yaml.org,2002:{tag}" for tag in ("str", "merge"))

# libyaml's, where PyYAML was built with it: papers' claims are thousands of lines.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class LOADER(_Loader):  # type: ignore[misc]
    """PyYAML's safe loader, whose errors all have a place: a date like 2001-13-01 has none."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:
            raise _problem(one_line(error), node) from error


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file.

    Raises:
        UserError: one line with the file and the position, if it cannot be read, repeats a key, or
            is larger or deeper than anything written by hand.
    """
    try:
        text = _text(Path(path))
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or one_line(error)
        raise UserError(f"{path}: {problem}") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str) -> Any:
    """Return the content of YAML that a file called ``name`` has; errors as `read_yaml`."""
    try:
        if len(text) > MOST_BYTES:
            raise ValueError(f"has {len(text)} characters; a YAML file may have {MOST_BYTES}")
        _require_shallow(text)
        loader = LOADER(text)
        root = loader.get_single_node()
        if root is None:
            return None
        _size(root, {})
        return loader.construct_document(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = text.count("\n", 0, getattr(error, "position", 0)) if mark is None else mark.line
        problem = getattr(error, "problem", None) or getattr(error, "reason", error)
        raise UserError(f"{name}: line {line + 1} not valid YAML: {problem}") from error
    except ValueError as error:
        raise UserError(f"{name}: {one_line(error)}") from error


def _text(path: Path) -> str:
    if not path.exists():
        raise ValueError("no such file")
    if not path.is_file():  # a pipe never ends
        raise ValueError("not a file")
    if (size := path.stat().st_size) > MOST_BYTES:
        raise ValueError(f"has {size} bytes; a YAML file may have {MOST_BYTES}")
    data = path.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} cannot be read as UTF-8; is it a text file?") from error


def _require_shallow(text: str) -> None:
    """Refuse what PyYAML must not be given: libyaml's loader crashes some thousand levels deep."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=LOADER)):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise _problem(f"more than {MOST_DEPTH} levels deep", event)
        if count > MOST_VALUES:
            raise _problem(f"more than {MOST_VALUES} values", event)


def _size(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Return how many values there are with all aliases written out."""
    if node in known:
        if not known[node]:
            raise _problem("refers to itself", node)
        return known[node]
    known[node] = 0  # until it is counted
    inside = []
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag not in (_TEXT, _MERGE):
                raise _problem("this key is no text; put it in quotes", key)
            if key.value in lines:
                repeated = f"the key {shown(key.value)} is in line {lines[key.value]} already"
                raise _problem(repeated, key)
            lines[key.value] = key.start_mark.line + 1
        inside = [each for pair in node.value for each in pair]
    elif isinstance(node, yaml.SequenceNode):
        inside = node.value
    elif node.tag != _TEXT and _NUMBER.fullmatch(node.value):
        raise _problem(f"a number of {len(node.value)} digits", node)
    known[node] = 1 + sum(_size(each, known) for each in inside)
    if known[node] > MOST_VALUES:
        raise _problem(f"more than {MOST_VALUES} values, with aliases written out", node)
    return known[node]


def _problem(problem: str, at: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, at.start_mark)


def shown(value: Any) -> str:
    """Return a value for a message: on one line, cut short if it is long.

    >>> shown("a\\n" * 1000)
    "'a\\\\na\\\\na\\\\na\\\\na\\\\na\\\\na..."
    """
    text = repr(value)
    return text if len(text) <= MOST_DIGITS else f"{text[:22]}..."


def located(path: str, home: str) -> str:
    """Return where a file is that a user names: in the working folder, or else in ``home``.

    ``home`` is the folder of the workflow, with a slash, or empty if one works in it.
    """
    elsewhere = str(Path(home, path))  # an absolute path as it is
    return elsewhere if not Path(path).exists() and Path(elsewhere).exists() else path


def typed(value: Any) -> Any:
    """Return a value of --config with numbers in its lists and mappings.

    Snakemake reads ``--config depths=[0,1]`` as texts: ``['0', '1']``.

    >>> typed(["0", "1.5", "all", "digits", "[1"])
    [0, 1.5, 'all', 'digits', '[1']
    """
    if isinstance(value, Mapping):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    try:
        return yaml.safe_load(value) if isinstance(value, str) else value
    except (yaml.YAMLError, ValueError):  # a text, of which its key will say that it does not fit
        return value


def schema_errors(values: Any, schema: Config, origin: Sequence[Layer]) -> list[str]:
    """Return a line for everything in ``values`` that the schema forbids."""
    errors = sorted(_Validator(schema).iter_errors(values), key=lambda e: list(map(str, e.path)))
    # A key that no entry has is not said to be unfit for this one, too.
    unknown = {
        (*error.absolute_path, name)
        for error in errors
        if error.validator == "additionalProperties"
        for name in set(error.instance) - set(error.schema.get("properties", {}))
    }
    errors = [
        e for e in errors if e.validator != "enum" or (*e.path, str(e.instance)) not in unknown
    ]
    # A list whose items are unfit is not said to be too short, too.
    unfit = {tuple(error.path)[:-1] for error in errors}
    errors = [e for e in errors if e.validator != "minItems" or tuple(e.path) not in unfit]
    # Each key that is missing is an error of its own, whose line names them all.
    lines = list(dict.fromkeys(line for error in errors for line in _explain(error, origin)))
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"and {more} more mistakes"]


_LIMITS = {
    "minimum": "{value} is too small; the least is {limit}",
    "exclusiveMinimum": "{value} is too small; it must be above {limit}",
    "maximum": "{value} is too large; the most is {limit}",
    "exclusiveMaximum": "{value} is too large; it must be below {limit}",
    "const": "{value} is not {limit!r}, the only value that it can have",
}
_TYPES = {
    "integer": "a whole number",
    "number": "a finite number",
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
            yield f"{source_of(place, origin)}: unknown key {shown(key_name(place))}; {advice}"
    elif (
        error.validator == "anyOf" and isinstance(value, list | dict) and (inner := _inside(error))
    ):
        for mistake in inner:  # of the alternative that is a list, or a mapping
            yield from _explain(mistake, origin)
    else:
        yield f"{source_of(path, origin)}: {key_name(path)}: {_reason(error)}"


def _reason(error: jsonschema.ValidationError) -> str:
    rule, limit, value = error.validator, error.validator_value, shown(error.instance)
    if rule in _LIMITS:
        return _LIMITS[rule].format(value=value, limit=limit)
    if rule == "required":
        return f"missing {', '.join(name for name in limit if name not in error.instance)}"
    if rule == "enum":
        return f"{value} is not one of {', '.join(map(str, limit))}"
    if rule == "type":
        names = [limit] if isinstance(limit, str) else limit
        if "integer" in names and type(error.instance) is int:
            return f"{value} is too large; the most is {LARGEST}"
        return f"{value} is not {' or '.join(_TYPES[name] for name in names)}"
    if rule == "anyOf":
        return f"{value} is not {' or '.join(map(_alternative, limit))}"
    if rule == "uniqueItems":
        items = error.instance
        repeated = sorted({shown(item) for item in items if items.count(item) > 1})
        return f"{', '.join(repeated)} stands there more than once; remove the repetition"
    if rule == "minItems":
        count = len(error.instance)
        length = f"the list has only {count}" if count else "the list is empty"
        return f"{length}; give at least {limit} item{'s' if limit > 1 else ''}"
    if rule == "maxProperties":
        return f"{' and '.join(map(str, error.instance))} exclude each other; give one"
    if rule == "maxItems":
        return f"the list has {len(error.instance)} items; give {limit}"
    if rule == "minLength":
        return "the text is empty; give one, or leave the key out"
    if rule == "pattern":
        lower = error.instance.strip().lower()
        takes = error.schema.get("title", "lower-case letters, digits, _ . -")
        advice = f"did you mean {lower!r}?" if re.search(limit, lower) else f"it takes {takes}"
        return f"{value} does not fit; {advice}"
    return " ".join(str(error.message).replace(repr(error.instance), value).split())


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
    text = text.removeprefix(".") or "the file"
    return text if text.isprintable() and len(text) <= 200 else shown(text)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return advice on a name that is not known."""
    known = sorted(known)
    close = [other for other in known if other.startswith(name)]
    close = close or difflib.get_close_matches(name, known, n=1)
    names = ", ".join(known) if len(known) <= 50 else f"{', '.join(known[:50])} and others"
    return f"did you mean {close[0]!r}?" if close else f"known: {names}"


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
    """Name file and line of a config that is no YAML mapping, which Snakemake does not.

    Nor does it say that a file with the key ``__use_yte__`` has expressions, which it runs.
    """
    for path in paths:
        try:
            content = read_yaml(path)
            if not isinstance(content, Mapping):
                raise ValueError(f"{path}: not a mapping of keys; see config.yaml")
            if "__use_yte__" in content:
                raise ValueError(f"{path}: __use_yte__: Snakemake would run its Python; remove it")
        except ValueError as error:
            sys.stderr.write(f"{error}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
