"""The rows of a run, one file for each job that computes, and the options of their programs."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.networks import activations
from ntk_workflow.checks import require, study_module
from ntk_workflow.plan.datasets import datasheets
from ntk_workflow.plan.trainings import TRAINED_TABLES, TRAINING_TABLES, has_table, training_files
from ntk_workflow.provenance import digests
from ntk_workflow.run import BUILT_IN, GRID, STUDY_OF, Run

#: The tables whose rows are files of their own.
OF_ROWS = [name for name, table in tables.TABLES.items() if table.axes is not None]
#: Those that summarise kappa of their rows, and all that are made of other files.
SUMMARISED = [n for n, table in tables.TABLES.items() if "conditioning" in (n, table.like)]
COLLECTED = sorted({*OF_ROWS, *TRAINING_TABLES, *SUMMARISED, "datasets"})


def studies(run: Run) -> list[str]:
    """Return the studies that are on and have rules of their own, rules/studies/{study}.smk."""
    names = sorted(path.stem for path in run.source.glob("rules/studies/*.smk"))
    return [name for name in names if run.config.get(f"{name}_study", run.config.get(name))]


def rows(run: Run, table: str) -> list[str]:
    """Return what a table is made of: a file for each value of its axes, the keys of its study."""
    if table == "datasets":
        return datasheets(run)
    if table in TRAINING_TABLES:
        having = [name for name, values in run.experiments.items() if has_table(table, values)]
        return [run.path("tables", table, f"{name}.parquet") for name in having]
    if table == "conditioning":
        return rows(run, "spectra")
    study = STUDY_OF.get(table, GRID)
    require(run, study)
    section, keys = run.section(study), tables.get(table).axes or ()
    axes = {key: section[key] for key in keys}
    if table == "angles":  # between gradients, whose inner products are NTKs
        axes["kernels"] = [name for name in axes["kernels"] if name.endswith("_ntk")]
    module: Any = study_module(study)
    names = product(*axes.values()) if axes else module.rows(section)
    return [run.path(table, *name) + ".parquet" for name in names]


def all_rows(run: Run) -> list[str]:
    """Return all rows and trainings of the run, of which its tables are made."""
    files = [path for table in OF_ROWS if table in run.tables for path in rows(run, table)]
    for name, table in product(run.experiments, TRAINED_TABLES):
        files += training_files(run, table, name)
    return files


def user_activation_files(run: Run, names: Iterable[str]) -> list[str]:
    """Return the files that register activations; none if all ``names`` are the package's own."""
    built_in = {activations.base_name(name) for name in names} <= BUILT_IN
    return [] if built_in else list(run.config["activation_files"])


def activation_options(run: Run, names: Iterable[str]) -> list[str]:
    """Return activations as options, with the files that register the user's."""
    files = user_activation_files(run, names)
    return ["--activation", *names, *(f"--activation-file={file}" for file in files)]


def network_options(run: Run, model: str) -> list[str]:
    """Return a training's network as options, with the user's file."""
    options = ["--model", model]
    if model in run.models:
        network = run.config["models"][model]
        options += [f"--model-file={network['file']}", f"--model-function={network['function']}"]
    return options


def architecture_options(run: Run, architecture: str, study: Mapping[str, Any]) -> list[str]:
    """Return a network of which a study varies the widths, and the study's classes, as options."""
    network = run.config["architectures"][architecture]
    dense = ["--dense"] if network.get("dense") else []
    classes = ["--classes", *map(str, study["classes"])] if study["classes"] else []
    return ["--hidden", *map(str, network["hidden"]), *dense, *classes]


def code(run: Run, programs: Iterable[str], user_files: Iterable[str] = ()) -> str:
    """Return the digest of programs of the workflow, what they import, and files of the user's."""
    paths = (run.home + program for program in programs)
    return digests.source_digest(*paths, *user_files, source=run.source / "src")
