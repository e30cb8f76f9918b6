"""What of a run follows from the rest of it: made again by this checkout's programs, and compared.

Programs are given the bundle's tables, config and papers as data. What nothing else in the bundle
determines, the raw numbers of cells, is compared with nothing here.
"""

import filecmp
import logging
import multiprocessing
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq

from ntk_conditioning.errors import one_line
from ntk_conditioning.files import FullDiskError, scratch_folder
from ntk_workflow.bundle import BundleError, in_words
from ntk_workflow.cli import limit_threads
from ntk_workflow.comparison.differences import compare_tables
from ntk_workflow.figures.parameters import TRAINING_TABLES, has_table
from ntk_workflow.plan import Plan
from ntk_workflow.plan.rows import AXES

TOLERANCE, NOISE = 1e-9, 1e-12
"""Change of a table's numbers that is passed over, relative and absolute, for other processors and
libraries round differently. What is noise of size 1e-17 here is another noise there.
"""

PRINTED = 1e-6
"""Relative change of numbers on pages that is passed over. They have seven digits at most."""

_NUMBER = re.compile(r"(?<![\w.])(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?![\w.])", re.ASCII)

#: Programs that take long, by how long.
_LONG = {"check_claims": 2, "render_explorer": 1}

Program = Callable[[Sequence[str]], int | None]


@dataclass(frozen=True)
class Derivation:
    """Files that a program makes of others, all named from the payload.

    ``inputs`` and ``outputs`` are by option; ``words`` are the options that name no file, and
    ``like`` is the one that names an output as it is already, to take what is the same from it.
    Without ``whole`` tables may have rows beside those that the program makes.
    """

    program: str
    inputs: Mapping[str, Sequence[str]]
    outputs: Mapping[str, str]
    words: Sequence[str] = ()
    like: str | None = None
    whole: bool = True

    def sources(self) -> str:
        """Return the names of the inputs, of many the first and their number."""
        names = [name for files in self.inputs.values() for name in files] or ["their definitions"]
        return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more"


def derivations(plan: Plan, *, with_rows: bool) -> Iterator[Derivation]:
    """Yield what the run's files are made by, in an order in which they can be made.

    As in rules/tables.smk, studies.smk and claims.smk; the rows are not in every bundle.
    """

    def table(*parts: str) -> str:
        return plan.path("tables", *parts) + ".parquet"

    def collected(name: str, files: Sequence[str], *of: str) -> Derivation:
        output, words = {"--output": table(name, *of)}, ["--table", name]
        return Derivation("aggregate_table", {"--rows": files}, output, words)

    def of_tables(
        program: str, output: str, words: Sequence[str] = (), **inputs: str
    ) -> Derivation:
        files = {f"--{option}": [name] for option, name in inputs.items()}
        return Derivation(program, files, {"--output": output}, words)

    if with_rows:
        for name in AXES:
            if name in plan.tables and name != "activation_study":
                yield collected(name, plan.row_files(name))
        for experiment, values in plan.experiments.items():
            for name in TRAINING_TABLES:
                if name != "learning_rates" and has_table(name, values):
                    yield collected(name, plan.training_files(name, experiment), experiment)
        if "activation_study" in plan.tables:
            rows = {"--rows": plan.row_files("activation_study")}
            output = {"--output": table("activation_study")}
            yield Derivation("aggregate_conditioning", rows, output)
    rows = {"--rows": plan.row_files("spectra") if with_rows else [table("spectra")]}
    yield Derivation("aggregate_conditioning", rows, {"--output": table("conditioning")})
    for experiment in plan.experiments:
        names = {"training": "training", "kernels": "training_kernels"}
        inputs = {option: table(name, experiment) for option, name in names.items()}
        words = plan.criterion(SimpleNamespace(experiment=experiment))
        output_of = table("learning_rates", experiment)
        yield of_tables("select_learning_rates", output_of, words, **inputs)
    for name in TRAINING_TABLES if plan.experiments else ():
        yield collected(name, plan.experiment_tables(SimpleNamespace(table=name)))
    if "width_slopes" in plan.tables:
        inputs = {name: table(name) for name in ("orthogonality", "linearity")}
        yield of_tables("fit_width_slopes", table("width_slopes"), **inputs)
    if "finite_width_laws" in plan.tables:
        rows_of = table("finite_width")
        yield of_tables("fit_finite_width", table("finite_width_laws"), rows=rows_of)
    if "activations" in plan.tables:
        asked = plan.activations("activation_constants")
        # the user's own are not imported
        if given := [name for name in asked if not plan.plugins(name)]:
            words, output = ["--activation", *given], {"--output": table("activations")}
            whole = len(given) == len(asked)
            yield Derivation("measure_activations", {}, output, words, whole=whole)
    yield from _pages(plan)


def _pages(plan: Plan) -> Iterator[Derivation]:
    none, run = SimpleNamespace(), ["--run", plan.config["run"]]
    papers = [f"workflow/{name}" for name in plan.paper_files(none)] if plan.papers else []
    if papers:
        names = {"output": "tables/claims.parquet", "markdown": "claims.md", "html": "claims.html"}
        outputs = {f"--{option}": plan.path(name) for option, name in names.items()}
        inputs = {"--papers": papers, "--tables": plan.claimed_tables(none)}
        yield Derivation("check_claims", inputs, outputs, run)
    inputs = {"--papers": papers, "--tables": plan.explored_tables(none)}
    output = {"--output": plan.path("explorer.html")}
    yield Derivation("render_explorer", inputs, output, run)


@contextmanager
def deriving(
    payload: Path,
    found: Sequence[Derivation],
    programs: Mapping[str, Program],
    checks: Sequence[Callable[[], None]] = (),
) -> Iterator[Callable[[], int]]:
    """Make files of a bundle again, beside what is done within this; other ``checks``, too.

    What is given waits for them, and returns how many files are the same. Leaving this ends them.

    Raises:
        BundleError: a line for every file that is not what its program makes of the others.
    """
    with scratch_folder() as scratch:  # here: what is ended does not clear up
        before = {*multiprocessing.active_children()}
        context = multiprocessing.get_context("fork")  # which has all imports
        pool = ProcessPoolExecutor(2, context, limit_threads, (1,))

        def asked(each: Derivation) -> Future[list[str]]:
            program = programs[each.program]
            return pool.submit(problems_of, payload, each, program, folder=scratch)

        try:
            with quiet():  # what takes longest begins first, side by side
                order = sorted(found, key=lambda each: _LONG.get(each.program, 0), reverse=True)
                work = [asked(each) for each in order[:1]]
                checked = [pool.submit(check) for check in checks]
                work += [asked(each) for each in order[1:]]

            def finish() -> int:
                for each in checked:
                    each.result()
                if problems := [line for each in work for line in each.result()]:
                    raise BundleError("; ".join(problems))
                return sum(len(each.outputs) for each in order)

            yield finish
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in {*multiprocessing.active_children()} - before:
                child.terminate()
                child.join()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what programs say of their work out of what verification says."""
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def problems_of(
    payload: Path, of: Derivation, program: Program, *, folder: Path | None = None
) -> list[str]:
    """Return a line for each output that is not what the program makes of the inputs."""
    names = [name for files in (*of.inputs.values(), [*of.outputs.values()]) for name in files]
    if absent := [name for name in names if not (payload / name).is_file()]:
        return [f"{absent[0]}: missing, though the recorded config asks for it"]
    words = [*of.words]
    for option, files in of.inputs.items():
        words += [option, *(str(payload / name) for name in files)]
    if of.like:
        words += [of.like, str(payload / next(iter(of.outputs.values())))]
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        again = {name: Path(scratch, name) for name in of.outputs.values()}
        for option, name in of.outputs.items():
            words += [option, str(again[name])]
        try:
            program(words)
        except FullDiskError:
            raise
        except Exception as error:  # a hostile table may break a program anywhere
            reason = one_line(error).replace(f"{payload}/", "") or type(error).__name__
            outputs = " and ".join(of.outputs.values())
            return [f"{outputs}: {of.sources()} cannot give it ({reason})"]
        pairs = {name: (payload / name, path) for name, path in again.items()}
        changes = {name: _change(*pair, whole=of.whole) for name, pair in pairs.items()}
    return [f"{name}: {of.sources()} {line}" for name, line in changes.items() if line]


def _change(bundled: Path, again: Path, *, whole: bool = True) -> str | None:
    """Return what an output is and what it would be, None if it is the same."""
    if filecmp.cmp(bundled, again, shallow=False):
        return None
    if bundled.suffix == ".parquet":
        return table_change(bundled, again, whole=whole)
    here, there = (path.read_text(encoding="utf-8", errors="replace") for path in (bundled, again))
    if _same_page(here, there):
        return None
    pairs = zip(f"{here}\0", f"{there}\1", strict=False)
    start = next(place for place, (a, b) in enumerate(pairs) if a != b)
    line, part = here.count("\n", 0, start) + 1, slice(max(0, start - 20), start + 40)
    return f"give {there[part]!r} in line {line}, where it has {here[part]!r}"


def _same_page(a: str, b: str) -> bool:
    """Return whether two pages have the same words, and numbers that differ by rounding at most."""
    texts, numbers = zip(*(_in_parts(page) for page in (a, b)), strict=True)
    if texts[0] != texts[1]:
        return False
    # a whole number that is none on the other page has been rounded to it
    unlike = [pair for pair in zip(*numbers, strict=True) if pair[0] != pair[1]]
    measured = all(not set("".join(pair)).isdisjoint(".e") for pair in unlike)
    x, y = np.array(unlike, dtype=np.float64).reshape(-1, 2).T
    return measured and bool(np.all(np.abs(x - y) <= PRINTED * np.abs(y) + NOISE))


def _in_parts(page: str) -> tuple[list[str], list[str]]:
    """Return a page's texts, and the numbers between."""
    parts = _NUMBER.split(page)
    return parts[::2], parts[1::2]


def table_change(bundled: Path, again: Path, *, whole: bool = True) -> str | None:
    """Return how a table differs from what it would be; None if by rounding at most.

    Unless it is ``whole``, it may have more rows.
    """
    there, here = (pq.read_table(path, partitioning=None) for path in (again, bundled))
    keys = there.schema.metadata[b"keys"].decode().split(",")
    difference = compare_tables(there, here, keys=keys, tolerance=TOLERANCE, noise=NOISE)
    if difference.only_a:
        return f"give a row more, {in_words(difference.examples_a[0])}"
    if difference.only_b and whole:
        return f"give no row {in_words(difference.examples_b[0])}"
    for column in difference.columns:
        first = column.examples[0]
        return f"give {column.name} {first.a!r}, where it has {first.b!r}, at {in_words(first.key)}"
    return None
