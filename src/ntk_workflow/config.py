"""The config: its schema and defaults, and every mistake as one line with key and remedy."""

import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from ntk_conditioning.errors import UserError
from ntk_workflow.yaml_files import LOADER as LOADER
from ntk_workflow.yaml_files import read_yaml as read_yaml

Config = Mapping[str, Any]

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"

#: Keys of the user's files.
FILES = ("catalogues", "activation_files", "file", "path", "alignments")
#: Lists of numbers whose order means nothing, by their keys.
UNORDERED = (
    *("depths", "seeds", "widths", "samples", "samples_per_dimension", "directions", "radii"),
    *("equicorrelated", "two_clusters", "power_law", "label_scales", "steps", "decay_at"),
    *("learning_rates", "critical", "smallest_critical"),
)


def located(value: Any, home: str, key: str = "") -> Any:
    """Return a value with files where they are: in the working folder, or else in ``home``."""
    if isinstance(value, Mapping):
        return {name: located(item, home, name) for name, item in value.items()}
    if isinstance(value, list):
        return [located(item, home, key) for item in value]
    if key not in FILES or not isinstance(value, str) or Path(value).exists():
        return value
    return str(elsewhere) if (elsewhere := Path(home, value)).exists() else value


def typed(value: Any) -> Any:
    """Return a value of --config with numbers in its lists, of which Snakemake makes texts.

    >>> typed(["0", "1e-3", "all", "[1"])
    [0, 0.001, 'all', '[1']
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
    """Return a value with the defaults that its schema gives for keys that are absent."""
    root = root or schema
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if not isinstance(values, Mapping):
        return values
    known, other = schema.get("properties", {}), schema.get("additionalProperties") or {}
    absent = {key: entry["default"] for key, entry in known.items() if "default" in entry}
    given = {k: with_defaults(entry, known.get(k, other), root) for k, entry in values.items()}
    return absent | given


def canonical(value: Any, key: str = "") -> Any:
    """Return a value as all that mean the same are written, so that none of them reruns anything.

    >>> canonical({"depths": [2, 1.0], "hidden": [8, 4]})
    {'depths': [1, 2], 'hidden': [8, 4]}
    """
    if isinstance(value, Mapping):
        return {name: canonical(item, name) for name, item in value.items()}
    if isinstance(value, list):
        items = [canonical(item) for item in value]
        return sorted(items) if key in UNORDERED else items
    return int(value) if isinstance(value, float) and value.is_integer() else value


def options(section: Mapping[str, Any], *keys: str) -> list[str]:
    """Return values of the config as command-line options, in an order that no config changes.

    Keys of nothing are left out.

    >>> options({"seed": 0, "depths": [1, 2], "classes": None}, "seed", "depths", "classes")
    ['--depths', '1', '2', '--seed', '0']
    """
    words = []
    for key in sorted(keys):
        value, option = section[key], f"--{key.replace('_', '-')}"
        values = value if isinstance(value, list) else [] if value is True else [value]
        if value is not False and value not in (None, []):  # 0, which equals False, is a value
            words += [option, *map(str, values)]
    return words


def user_programs(config: Config) -> list[str]:
    """Return the Python files of the user's activations and networks, each once."""
    networks = [own["file"] for own in config["models"].values()]
    return list(dict.fromkeys([*config["activation_files"], *networks]))


def redact_paths(value: Any, checkout: Path) -> Any:
    """Return a config value without absolute paths: relative to the checkout, or the name alone."""
    if isinstance(value, dict):
        return {key: redact_paths(inner, checkout) for key, inner in value.items()}
    if isinstance(value, list):
        return [redact_paths(inner, checkout) for inner in value]
    if not isinstance(value, str) or not Path(value).is_absolute():
        return value
    path = Path(value)
    return path.relative_to(checkout).as_posix() if checkout in path.parents else f"…/{path.name}"


def schema_errors(values: Any, schema: Config) -> list[str]:
    """Return a line for everything in ``values`` that the schema forbids, with key and remedy."""
    errors = jsonschema.Draft202012Validator(schema).iter_errors(values)
    return list(dict.fromkeys(line for error in sorted(errors, key=_key) for line in _lines(error)))


def _key(error: jsonschema.ValidationError) -> str:
    """Return where an error is as users write it: ``overrides.digits.depths[0]``."""
    parts = (f"[{it}]" if isinstance(it, int) else f".{it}" for it in error.absolute_path)
    return "".join(parts).removeprefix(".")


def _lines(error: jsonschema.ValidationError) -> Iterator[str]:
    key, value = _key(error), error.instance
    # of alternatives, those of the value's type
    fitting = [e for e in error.context if e.path or e.validator not in ("type", "const")]
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        for name in sorted(value.keys() - known.keys()):
            whole = f"{key}.{name}".removeprefix(".")
            yield f"unknown key {whole!r}; {did_you_mean(name, known)}"
    elif fitting and isinstance(value, list | dict):
        for cause in fitting:
            yield from _lines(cause)
    else:
        reasons = dict.fromkeys(map(_reason, error.context or [error]))
        yield f"{key or 'the file'}: {', or '.join(reasons)}"


def _reason(error: jsonschema.ValidationError) -> str:
    """Return jsonschema's message with a remedy, where there is one."""
    rule, expected, value = error.validator, error.validator_value, error.instance
    remedy = ""
    if rule == "type" and "array" in expected and not isinstance(value, dict | None):
        remedy = f"; write [{value}]"
    elif rule == "enum" and (close := difflib.get_close_matches(str(value), map(str, expected), 1)):
        remedy = f"; did you mean {close[0]!r}?"
    elif rule == "pattern":
        remedy = f"; it takes {error.schema.get('title', 'other letters')}"
    return f"{error.message}{remedy}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return advice on a name that is not known."""
    known = sorted(known)
    close = [other for other in known if other.startswith(name)]
    close = close or difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known[:50])}"


def require_config(path: str) -> None:
    """Raise `UserError` for a file that Snakemake would not read as a config, or not safely."""
    content = read_yaml(path)
    if not isinstance(content, Mapping):
        raise UserError(f"{path}: not a mapping of keys; see config.yaml")
    if "__use_yte__" in content:
        raise UserError(f"{path}: __use_yte__: Snakemake would run its Python; remove it")


if __name__ == "__main__":  # `make` does this first: Snakemake names neither file nor line
    try:
        for name in sys.argv[1:]:
            require_config(name)
    except UserError as error:
        sys.exit(str(error))
