"""What the notebook of a figure is given: its tables, its files, and values of the config."""

import fnmatch
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import yaml

#: Tables of trained networks, of which there is one for each experiment.
TRAINING_TABLES = (
    *("training", "training_kernels", "learning_rates", "predictions", "kernels_along_training"),
)
#: The key of an experiment that asks for a table, by table; the others are made of all.
ASKED_FOR = {"predictions": "predict", "kernels_along_training": "kernels_along"}


def has_table(table: str, experiment: Mapping[str, Any]) -> bool:
    """Return whether an experiment, which is not switched off, has a table of trained networks."""
    return table not in ASKED_FOR or bool(experiment.get(ASKED_FOR[table]))


def tables_of(
    spec: Mapping[str, Any], experiments: Mapping[str, Any], folder: str
) -> dict[str, list[str]]:
    """Return the files of each table that a figure reads.

    ``spec`` is the figure's entry in notebooks/figures.yaml. Of trained networks it shows those of
    the ``experiments`` that match its patterns and are not switched off.

    >>> spec = {"tables": ["training"], "experiments": ["fig3*"]}
    >>> tables_of(spec, {"fig3_mine": {}, "fig3": None, "fc": {}}, "tables")
    {'training': ['tables/training/fig3_mine.parquet']}
    """
    known = sorted(name for name in experiments if experiments[name] is not None)
    shown = [n for pattern in spec.get("experiments", ()) for n in fnmatch.filter(known, pattern)]
    files = {name: [f"{folder}/{name}.parquet"] for name in spec["tables"]}
    for name in set(files) & set(TRAINING_TABLES):
        having = [each for each in dict.fromkeys(shown) if has_table(name, experiments[each])]
        files[name] = [f"{folder}/{name}/{each}.parquet" for each in having]
    return files


def parameters(
    spec: Mapping[str, Any],
    config: Mapping[str, Any],
    *,
    tables: Mapping[str, list[str]],
    pdf: str,
    png: str,
) -> dict[str, Any]:
    """Return a notebook's parameters; ``tables`` has the files of each table, see `tables_of`.

    >>> parameters({"tables": ["angles"]}, {}, tables={"angles": ["a.parquet"]}, pdf="p", png="q")
    {'angles_table': 'a.parquet', 'pdf': 'p', 'png': 'q'}
    """
    files = {f"{name}_table": tables[name] for name in spec["tables"]}
    paths = {key: paths[0] if len(paths) == 1 else paths for key, paths in files.items()}
    values = {key: config[key] for key in spec.get("parameters", [])}
    return {**paths, **values, "pdf": pdf, "png": png}


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads 1e-05 as the number that Python and JSON mean by it; to YAML 1.1 it is a text."""


_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))


def to_words(values: Mapping[str, Any]) -> list[str]:
    """Return values as NAME=VALUE, the form in which a person types them; `from_words` reads it.

    >>> to_words({"run": "demo", "depths": [1, 2], "mirror": None})
    ['run=demo', 'depths=[1, 2]', 'mirror=null']
    """
    return [f"{key}={_text(value)}" for key, value in values.items()]


def from_words(words: Iterable[str]) -> dict[str, Any]:
    """Return the values of NAME=VALUE, each read as YAML; `ValueError` if they are something else.

    >>> from_words(["run=demo", "depths=[1, 2]", "mirror=null", "rate=1e-3"])
    {'run': 'demo', 'depths': [1, 2], 'mirror': None, 'rate': 0.001}
    """
    values = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise ValueError(f"{word!r} is not of the form NAME=VALUE")
        try:
            values[name] = yaml.load(text, _Loader)
        except yaml.YAMLError:
            raise ValueError(f"{name}: {text!r} is not YAML") from None
    return values


def _text(value: Any) -> str:
    """Return a value as YAML: a text as it is where YAML reads it as the same text."""
    if isinstance(value, str) and "=" not in value:
        with suppress(yaml.YAMLError):
            if yaml.load(value, _Loader) == value:
                return value
    return json.dumps(value, sort_keys=True)
