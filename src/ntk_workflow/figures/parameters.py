"""What the notebook of a figure is told: its tables, its files, and values of the config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def parameters(
    spec: Mapping[str, Any],
    config: Mapping[str, Any],
    *,
    tables: Mapping[str, str],
    pdf: str,
    png: str,
) -> dict[str, Any]:
    """Return a notebook's parameters.

    ``spec`` is the figure's entry in notebooks/figures.yaml, ``tables`` where its tables are.

    >>> parameters({"tables": ["angles"]}, {}, tables={"angles": "a.parquet"}, pdf="p", png="q")
    {'angles_table': 'a.parquet', 'pdf': 'p', 'png': 'q'}
    """
    paths = {f"{name}_table": tables[name] for name in spec["tables"]}
    values = {key: config[key] for key in spec.get("parameters", [])}
    return {**paths, **values, "pdf": pdf, "png": png}
