"""Raw numbers of a bundle once more: jobs drawn at random are run again, from their data."""

import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from ntk_conditioning import tables
from ntk_conditioning.files import scratch_folder
from ntk_conditioning.spectra.summary import summarize
from ntk_conditioning.tables import TABLES, Table
from ntk_workflow import estimate
from ntk_workflow.bundle import BundleError, in_words
from ntk_workflow.bundle.recorded import ROOT, inside
from ntk_workflow.figures.parameters import TRAINED_TABLES, has_table
from ntk_workflow.plan import Plan
from ntk_workflow.plan.rows import AXES

STARTUP = 3.0  #: seconds that count for every job, so that the smallest are not all there is

ROUNDING, NOISE = 1e-5, 1e-13
"""Change of a number that other processors may make, relative and absolute: they round otherwise.

Measured, in both: the demo with the instructions of three generations of processors, of which no
two gave a condition number the same last bit.
"""

LARGEST = 1 / 1e-12
"""Condition numbers above are not told apart: they are noise over noise."""

#: Tables whose numbers another processor changes by more: training is chaotic, random networks of
#: finite width have factors of deficient rank, and that of precisions is about rounding itself.
CHAOTIC = frozenset(
    {"training", "predictions", "kernels_along_training", "finite_width", "precision"}
    | {"claim_experiments"}
)
#: Tables of eigenvalues: one that is the same to the last bit shows that this processor rounds as
#: that of the run did.
_SENSITIVE = frozenset({"spectra", "phase", "training_kernels", "architectures", "repairs"})
#: Columns whose error bound is another column's, and the noise of angles of parallel rows, degrees.
_BOUNDS, _FLOORS = {"lambda_2": "lambda_max_error"}, {"min_angle": 1e-5}
MOST_LINES = 20  #: differences that are listed at most
#: Tables that one job makes whole.
_WHOLE = ("activations", "precision", "phase_laws", "claim_experiments")

Row = dict[str, Any]
Key = tuple[Any, ...]
Rows = dict[Key, Row]


@dataclass(frozen=True)
class Sample:
    """Some of ``jobs`` jobs, by the file that each makes, and how likely the rarest was drawn."""

    files: tuple[str, ...]
    jobs: int
    least: float

    def chance(self, forged: int) -> float:
        """Return how likely a sample has one of so many jobs, each as likely to be among them."""
        rest = math.comb(self.jobs - len(self.files), forged)
        return 1 - rest / math.comb(self.jobs, forged)


def row_tables(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the files that jobs compute, each with the bundle's table that has its rows."""

    def table(*parts: str) -> str:
        return plan.path("tables", *parts) + ".parquet"

    for name in plan.tables:
        if name in AXES or name == "datasets":
            yield from ((file, table(name)) for file in plan.row_files(name))
        elif name in _WHOLE:
            yield table(name), table(name)
    for (experiment, values), name in product(plan.experiments.items(), TRAINED_TABLES):
        if has_table(name, values):
            files = plan.training_files(name, experiment)
            yield from ((file, table(name, experiment)) for file in files)


def sample(costs: Mapping[str, float], count: int, rng: random.Random) -> Sample:
    """Draw ``count`` files, each with a probability that falls with its cost in seconds.

    Systematic sampling: a file's probability is exactly ``count`` times its share of the weights,
    1/cost, or 1 (Madow, Annals of Mathematical Statistics 20, 1949).
    """
    names = list(costs)
    rng.shuffle(names)
    weights = np.array([1 / (STARTUP + costs[name]) for name in names])
    chances = np.ones(len(names))
    if count < len(names):
        certain = np.zeros(len(names), dtype=bool)
        while True:
            rest = weights[~certain]
            chances[~certain] = rest * (count - certain.sum()) / rest.sum()
            if not (above := chances > 1).any():
                break
            certain |= above
            chances[certain] = 1
    ends = rng.random() + np.cumsum(chances) / chances.sum() * min(count, len(names))
    drawn = np.diff(np.floor(ends), prepend=0.0) > 0
    return Sample(tuple(np.array(names)[drawn]), len(names), float(chances.min()))


def require_recomputed(
    payload: Path, plan: Plan, count: int | Literal["all"], *, mirror: str, rng: random.Random
) -> str:
    """Return what was run again, in a line; ``mirror`` is where original files are looked for.

    The workflow is this checkout's, as are its papers; the config and catalogues are the bundle's.

    Raises:
        BundleError: if the run needs its author's Python files or data, a job fails or gives other
            rows.
    """
    if files := plan.plugin_files:
        raise BundleError(
            f"its run needs {files[0]}, and verification runs no Python of a bundle: to run it "
            f"again, read that file, then snakemake --configfile {plan.path('record/config.yaml')}"
        )
    own = [plan.catalogue[name].get("path") for name in plan.used_datasets]
    if absent := [path for path in own if path and not (ROOT / path).exists()]:
        raise BundleError(
            f"its run read {absent[0]}, data of its author's own, and a bundle has no data: "
            "nothing of it can be run again without them"
        )
    known = dict(row_tables(plan))
    with scratch_folder() as scratch:
        workflow = _Workflow(scratch, _config(payload, plan, scratch, mirror))
        costs = workflow.costs([*known])
        found = sample(costs, len(known) if count == "all" else count, rng)
        tables_of = {file: _table(known[file]) for file in sorted(found.files)}
        there = {
            file: _rows(tables.read(payload / known[file], table).to_pylist(), table)
            for file, table in tables_of.items()
        }
        here = workflow.rows(tables_of)
    unlike = {f for f, rows in here.items() if any(there[f].get(k) != r for k, r in rows.items())}
    exact = any(table.name in _SENSITIVE and f not in unlike for f, table in tables_of.items())
    open_ones = {f for f in unlike if tables_of[f].name in CHAOTIC and not exact}
    problems = [
        f"{known[file]}: {line}"
        for file in sorted(unlike - open_ones)
        for line in _problems(tables_of[file], there[file], here[file], exact=exact)
    ]
    if problems:
        more = f"; and {len(problems) - MOST_LINES} more" if len(problems) > MOST_LINES else ""
        raise BundleError("; ".join(problems[:MOST_LINES]) + more)
    outcomes = {
        "the same to the last bit": len(here) - len(unlike),
        "the same within errors": len(unlike - open_ones),
        "of trained or random networks, which rounding on this other processor changes": len(
            open_ones
        ),
    }
    counts = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items() if number)
    one, ten = found.chance(1), found.chance(min(10, found.jobs))
    return (
        f"{len(here)} of {found.jobs} files of rows made again by their jobs: {counts}; numbers "
        f"forged in one file are found so with a probability of {one:.2g} ({found.least:.2g} where "
        f"it takes longest), in ten with {ten:.2g}"
    )


@dataclass(frozen=True)
class _Workflow:
    """This checkout's workflow with the config of a bundle, in a folder of its own."""

    folder: Path
    config: Mapping[str, Any]

    def costs(self, files: Sequence[str]) -> dict[str, float]:
        """Return the seconds of each file's job and of all that it needs."""
        planned = estimate.plan([*files, *self._arguments(self.folder / "plan")])
        makers = {output: job for job in planned for output in job.outputs}

        def needed(file: str) -> set[estimate.Job]:
            job = makers.get(file)
            return {job}.union(*map(needed, job.inputs)) if job else set()

        return {file: sum(job.seconds for job in needed(file)) for file in files}

    def rows(self, files: Mapping[str, Table]) -> dict[str, Rows]:
        """Return the rows of files of tables, by file; `BundleError` if a job of them fails."""
        folder = self.folder / "run"
        command = [sys.executable, "-m", "snakemake", *files, *self._arguments(folder)]
        command += ["--cores", "all", "--logger", "console"]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        if subprocess.run(command, env=environment).returncode:
            raise BundleError("jobs that were drawn cannot be run again: what they say is above")
        return {file: _rows(_made(folder / file, table), table) for file, table in files.items()}

    def _arguments(self, folder: Path) -> list[str]:
        folder.mkdir()
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(dict(self.config)), encoding="utf-8")
        named = {"snakefile": ROOT / "Snakefile", "directory": folder, "configfile": config}
        return [word for option, path in named.items() for word in (f"--{option}", str(path))]


def _config(payload: Path, plan: Plan, scratch: Path, mirror: str) -> dict[str, Any]:
    """Return the recorded config with this machine's places, and nothing of the bundle's."""
    catalogues = [str(payload / "workflow" / inside(each)) for each in plan.config["catalogues"]]
    near = mirror if "://" in mirror or not mirror else str(Path(mirror).resolve())
    places = {"catalogues": catalogues, "data_dir": f"{scratch}/data", "mirror": near or None}
    return {**plan.config, **places}


def _table(file: str) -> Table:
    kind = Path(file).relative_to("results").parts[2].removesuffix(".parquet")
    return TABLES["conditioning" if kind == "activation_study" else kind]


def _made(file: Path, table: Table) -> list[Row]:
    """Return the rows of a table that a job's file gives."""
    summarized = table is tables.get("conditioning")  # of the spectra of the study of activations
    found = tables.read(file, tables.get("spectra") if summarized else table)
    rows: list[Row] = (summarize(found) if summarized else found).to_pylist()
    return rows


def _problems(table: Table, there: Rows, here: Rows, *, exact: bool) -> Iterator[str]:
    """Yield what the bundle has otherwise than a job that was run again."""
    for key, row in here.items():
        place = in_words(dict(zip(table.keys, key, strict=True)))
        if key not in there:
            yield f"no row {place}, which a job gives that was run again"
            continue
        for name, value in row.items():
            known = there[key][name]
            if known != value and (exact or not _close(name, known, value, row)):
                yield f"{name} is {known!r}, and {value!r} when its job was run again, at {place}"


def _close(name: str, known: Any, value: Any, row: Row) -> bool:
    """Return whether two values of a row are the same but for rounding and their errors."""
    if "kappa" in name:
        error = row.get("kappa_error", 0.0)
        if error is None or error > 0.1:  # not resolved
            return True
    if name.endswith("_error"):  # a bound that follows from rounding errors
        return known == value or bool(known and value and 0.1 < known / value < 10)
    if "kappa" in name:
        known, value = (min(math.inf if v is None else v, LARGEST) for v in (known, value))
    if isinstance(known, list) and isinstance(value, list) and len(known) == len(value):
        x, y = np.array([known, value], dtype=np.float64)
        return bool(np.abs(x - y).max(initial=0.0) <= ROUNDING * np.abs(y).max(initial=0.0))
    if isinstance(known, float) and isinstance(value, float):
        bound = row.get(_BOUNDS.get(name, f"{name}_error")) or 0.0
        bound *= abs(value) if name == "kappa" else 1.0  # its error is relative
        # both have that error
        return abs(known - value) <= ROUNDING * abs(value) + 2 * bound + _FLOORS.get(name, NOISE)
    return bool(known == value)


def _rows(found: Sequence[Row], table: Table) -> Rows:
    """Return rows by their keys, of which some are numbers that jobs compute."""
    return {tuple(_rounded(row[name]) for name in table.keys): row for row in found}


def _rounded(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value
