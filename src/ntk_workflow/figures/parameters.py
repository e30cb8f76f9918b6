"""What the notebook of a figure is given: its tables, its files, and values of the config."""

import fnmatch
from collections.abc import Mapping
from itertools import chain
from typing import Any

#: The key of an experiment that asks for a table, by table; the others are made of all.
ASKED_FOR = {"predictions": "predict", "kernels_along_training": "kernels_along"}
#: Tables of trained networks that jobs compute, one for each experiment.
TRAINED_TABLES = ("training", "training_kernels", *ASKED_FOR)
TRAINING_TABLES = (*TRAINED_TABLES, "learning_rates")

Values = Mapping[str, Any]


def has_table(table: str, experiment: Values) -> bool:
    """Return whether an experiment, which is not switched off, has a table of trained networks."""
    return table not in ASKED_FOR or bool(experiment.get(ASKED_FOR[table]))


def tables_of(spec: Values, experiments: Values, folder: str) -> dict[str, list[str]]:
    """Return the files of each table that a figure reads, by its entry in notebooks/figures.yaml.

    Of trained networks it shows the ``experiments`` that match its patterns.
    """
    matching = [fnmatch.filter(experiments, pattern) for pattern in spec.get("experiments", ())]
    shown = dict.fromkeys(chain(*matching))
    files = {name: [f"{folder}/{name}.parquet"] for name in spec["tables"]}
    for table in set(files) & set(TRAINING_TABLES):
        having = [name for name in shown if has_table(table, experiments[name])]
        files[table] = [f"{folder}/{table}/{name}.parquet" for name in having]
    return files


def parameters(spec: Values, config: Values, tables: Values, **files: str) -> dict[str, Any]:
    """Return a notebook's parameters: its ``tables``, of `tables_of`, values, files to write."""
    paths = {f"{name}_table": tables[name] for name in spec["tables"]}
    paths = {key: each[0] if len(each) == 1 else each for key, each in paths.items()}
    return {**paths, **{key: config[key] for key in spec.get("parameters", [])}, **files}
