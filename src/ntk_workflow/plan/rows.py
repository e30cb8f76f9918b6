"""The rows of a run, one file for each job that computes, and the options of their programs."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from ntk_conditioning import tables
from ntk_workflow.checks import GRID
from ntk_workflow.plan.datasets import datasheets
from ntk_workflow.plan.run import STUDY_OF, Run, require, study_module
from ntk_workflow.plan.trainings import TRAINED_TABLES, training_files
from ntk_workflow.provenance import digests

#: The tables whose rows are files of their own.
OF_ROWS = [name for name, table in tables.TABLES.items() if table.axes is not None]


def rows(run: Run, table: str) -> list[str]:
    """Return the rows of a table: a file for each value of its axes, the keys of its study."""
    if table == "datasets":
        return datasheets(run)
    study = STUDY_OF.get(table, GRID)
    require(run, study)
    section, keys = run.section(study), tables.get(table).axes or ()
    axes = {key: section[key] for key in keys}
    if table == "angles":  # between gradients, whose inner products are NTKs
        axes["kernels"] = [name for name in axes["kernels"] if name.endswith("_ntk")]
    names = product(*axes.values()) if axes else study_module(study).rows(section)
    return [run.path(table, *name) + ".parquet" for name in names]


def all_rows(run: Run) -> list[str]:
    """Return all rows and trainings of the run, of which its tables are made."""
    files = [path for table in OF_ROWS if table in run.tables for path in rows(run, table)]
    for name, table in product(run.experiments, TRAINED_TABLES):
        files += training_files(run, table, name)
    return files


def options(section: Mapping[str, Any], *keys: str) -> list[str]:
    """Return values of the config as command-line options, in an order that no config changes.

    Keys of nothing are left out.

    >>> options({"kernel_size": 512, "depths": [1, 2]}, "kernel_size", "depths")
    ['--depths', '1', '2', '--kernel-size', '512']
    """
    words = []
    for key in sorted(keys):
        value, option = section[key], f"--{key.replace('_', '-')}"
        values = value if isinstance(value, list) else [] if value is True else [value]
        if value not in (None, False, []):
            words += [option, *map(str, values)]
    return words


def network_options(run: Run, architecture: str, study: Mapping[str, Any]) -> list[str]:
    """Return a network of which a study varies the widths, and the study's classes, as options."""
    network = run.config["architectures"][architecture]
    dense = ["--dense"] if network.get("dense") else []
    classes = ["--classes", *map(str, study["classes"])] if study["classes"] else []
    return ["--hidden", *map(str, network["hidden"]), *dense, *classes]


def code(run: Run, programs: Iterable[str], own: Iterable[str] = ()) -> str:
    """Return the digest of programs of the workflow, what they import, and files of the user's."""
    paths = (run.home + program for program in programs)
    return digests.source_digest(*paths, *own, source=run.source / "src")
