"""Which software computes: the versions of this project and of the libraries that matter."""

from importlib import metadata

from ntk_conditioning import version

PROJECT = version.__version__

#: Libraries whose version may change a result, a figure or which jobs run.
LIBRARIES = (
    *("torch", "numpy", "scipy", "pandas", "pyarrow"),
    *("matplotlib", "seaborn", "snakemake", "papermill"),
)


def libraries() -> dict[str, str]:
    """Return the versions of these libraries."""
    return {name: metadata.version(name) for name in LIBRARIES}
