"""What the notebook of a figure is given: its tables, its files, and values of the config."""

import fnmatch
from collections.abc import Mapping
from typing import Any

#: Tables of trained networks, of which there is one for each experiment.
TRAINING_TABLES = (
    *("training", "training_kernels", "learning_rates", "predictions", "kernels_along_training"),
)
#: Those of what jobs compute.
TRAINED_TABLES = tuple(name for name in TRAINING_TABLES if name != "learning_rates")
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
