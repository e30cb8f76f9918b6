"""Which software computes: the versions of this project and of the libraries that matter."""

import platform
from contextlib import suppress
from importlib import metadata

from ntk_conditioning import version

PROJECT = version.__version__

LIBRARIES = (
    *("torch", "numpy", "scipy", "pandas", "pyarrow"),
    *("matplotlib", "seaborn", "snakemake", "papermill"),
)
"""Libraries whose version may change a result, a figure or which jobs run."""


def libraries() -> dict[str, str]:
    """Return the versions of the libraries that are installed."""
    versions = {}
    for name in LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def machine() -> dict[str, str]:
    """Return the operating system's family and the architecture, but not which machine it is."""
    return {"system": platform.system(), "architecture": platform.machine()}
