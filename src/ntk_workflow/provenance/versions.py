"""Which software computes: the versions of this project and of the libraries that matter."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib import metadata

PROJECT = "0.1.0"
"""Version of this project. Not in ``__init__``, which every program imports: a new version alone is
no reason to compute anything again."""

LIBRARIES = (
    "torch",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "matplotlib",
    "seaborn",
    "snakemake",
    "papermill",
)
"""Libraries whose version may change a result, a figure or which jobs run."""


def libraries(names: Iterable[str] = LIBRARIES) -> dict[str, str]:
    """Return the versions of installed libraries; those that are not there are left out.

    >>> list(libraries(["numpy", "no-such-library"]))
    ['numpy']
    """
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str]:
    """Return the operating system's family and the architecture, but not which machine it is."""
    return {"system": platform.system(), "architecture": platform.machine()}
