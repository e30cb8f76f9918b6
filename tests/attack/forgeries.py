"""Consistent forgeries of a bundle: one value anywhere, with all checksums made anew.

`python -m tests.attack.forgeries [--bundle FILE] [--tries N] [--seed N] [KIND ...]` makes them at
random, verifies each, and prints a table of what was refused, of what nothing else in the bundle
determines (`RAW`), and a line for each that was accepted and is neither.

What follows from other files is made again only where the change can reach it: the programs are
deterministic, and all their inputs and outputs are as they were in the genuine bundle.
"""

import argparse
import json
import logging
import math
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from unittest import mock

import bagit

from ntk_conditioning.errors import UserError, one_line
from ntk_workflow.bundle import BundleError, archive, content, record, verification
from ntk_workflow.bundle.derivations import (
    NOISE,
    TOLERANCE,
    Derivation,
    Program,
    problems_of,
    quiet,
)
from ntk_workflow.bundle.recorded import recorded_plan
from ntk_workflow.provenance.digests import source_digest
from tests.bundles import describe, seal, write_bundle
from tests.forgeries import CRATE, FORGERS, Forged

#: Programs that take seconds.
PAGES = ("check_claims", "render_explorer")
#: Tables that theory is evaluated for, which takes seconds, too.
HEAVY = tuple(f"tables/{name}.parquet" for name in ("phase", "precision", "activations"))
#: Checks of sources, figures and jobs, whose files a changed table leaves as they are.
UNTOUCHED = (
    *((record, name) for name in ("require_jobs", "require_version", "require_source")),
    (content, "require_figures"),
)
#: How many of ten forgeries are of a kind; most values are in tables.
SHARES = {"table": 5, "record": 1, "page": 1, "notebook": 1, "figure": 1, "source": 1}
VERDICTS = ("refused", "reported", "raw", "accepted", "crashed")


@dataclass(frozen=True)
class Outcome:
    """What became of a forgery; ``line`` is why it was refused, or why its value is raw."""

    kind: str
    forged: Forged
    verdict: str
    line: str


# --- what nothing else determines -----------------------------------------------------------------

#: By a place's beginning, why no other value of the bundle determines the one there.
RAW: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("activation_study.kappa_error_max", "activation_study.effective_rank_mean"),
            *("conditioning.kappa_error_max", "conditioning.effective_rank_mean"),
        ),
        "of blocks that are not in the bundle",
    ),
    **dict.fromkeys(
        (
            *("activations.coefficient_error", "activations.fixed_point_error"),
            *("activations.non_linearity_error", "activations.coefficients"),
            *("angles.min_angle_error", "bounds.correlation_error", "precision.relative_error"),
            *("activations.non_affinity", "phase.lambda_max_error", "phase.lambda_min_error"),
        ),
        "rounding, or a bound on it, which is another on another processor",
    ),
    **dict.fromkeys(
        ("angles.min_angle", "angles.i", "angles.j", "angles.candidates"),
        "found among gradients that are not in the bundle",
    ),
    **dict.fromkeys(
        (
            *("architectures.mean_diagonal", "architectures.min_angle"),
            *("architectures.numerical_rank", "bounds.correlation_max", "bounds.distance"),
            *("spectra.lambda_min", "spectra.eigenvalues", "spectra.resolution_floor"),
            *("spectra.numerical_rank", "phase.lambda_2", "phase.bulk_max"),
            *("repairs.effective_kappa", "repairs.steps_"),
        ),
        "of a kernel that is not in the bundle",
    ),
    "claim_experiments.": "measured by an experiment, and no claim is about it",
    **dict.fromkeys(
        (
            *("datasets.class", "datasets.dtype", "datasets.m", "datasets.norm_"),
            *("datasets.constant_columns", "datasets.gram_rank", "datasets.duplicates"),
            *("datasets.i", "datasets.j", "datasets.sha256"),
        ),
        "of samples that are not in the bundle",
    ),
    **dict.fromkeys(
        (
            *("finite_width.mean", "finite_width.variance_error", "finite_width.resolved"),
            *("finite_width.low", "finite_width.median", "finite_width.high"),
        ),
        "over networks that are not in the bundle",
    ),
    **dict.fromkeys(
        (
            *("kernels_along_training.effective_rank", "kernels_along_training.alignment"),
            *("kernels_along_training.kernel_change", "kernels_along_training.min_angle"),
            "kernels_along_training.sharpness",
            *("linearity.quadratic_", "linearity.bound", "orthogonality.cos_"),
            *("orthogonality.jacobian_norm", "orthogonality.gradient_max"),
            *("predictions.predicted_", "predictions.alignment", "predictions.effective_kappa"),
            *("predictions.eigenvalues", "predictions.label_energy"),
            *("training.train_", "training.test_", "training.gradient_norm"),
        ),
        "measured in a training or on its network",
    ),
    **dict.fromkeys(
        ("phase.law_", "phase.parameter"), "of a dataset's variances, which are not in the bundle"
    ),
    **dict.fromkeys(
        ("phase_laws.bulk_max", "phase_laws.lambda_max"),
        "theory on a grid, which takes as long again as all else: see --recompute",
    ),
}
#: The same of other files, by a pattern of the whole place.
RAW_FILES: Mapping[str, str] = {
    r".*/jobs\.json: jobs\.\d+\.(host|device|dtype|start|end|place|inputs)(\.\d+)?": (
        "what a job's log said"
    ),
    r".*/jobs\.json: files\.(?!workflow).*\.(sha256|bytes|folder)": "of a file not in the bundle",
    r".*/versions\.json: (python|system|architecture|libraries\..*)": "what the run had",
    r".*\.ipynb: cells\.\d+\.outputs\..*": "what a notebook has shown",
    r".*/figures/.*": "drawn from tables, seen with --render",
}


def raw(forged: Forged) -> str:
    """Return why a value follows from nothing else in the bundle; empty if it may."""
    numbers = [each for each in (forged.before, forged.after) if isinstance(each, float)]
    if len(numbers) == 2 and math.isclose(*numbers, rel_tol=TOLERANCE, abs_tol=NOISE):
        return "rounding, which is another on another processor"
    of_tables = (why for place, why in RAW.items() if forged.place.startswith(place))
    others = (why for place, why in RAW_FILES.items() if re.fullmatch(place, forged.place))
    return next(of_tables, "") or next(others, "")


# --- forging and verifying ------------------------------------------------------------------------


def reseal(folder: Path, forged: Forged) -> None:
    """Give jobs, crate and manifests the checksums of what the bundle now holds."""
    payload = folder / "data"
    (jobs,) = payload.glob("results/*/record/jobs.json")
    if any(name.startswith("workflow/") for name in forged.files):
        with suppress(SyntaxError):  # what is no Python any more has no digest
            _recode(payload, jobs)
    if forged.files == (jobs.relative_to(payload).as_posix(),):
        seal(payload)
    elif forged.files != (CRATE,):
        describe(payload)
    bagit.Bag(str(folder)).save(manifests=True)


def _recode(payload: Path, jobs: Path) -> None:
    """Give the jobs and the run the digests of a changed source."""
    workflow, content = payload / "workflow", json.loads(jobs.read_text())

    @cache
    def digest(*files: str) -> str:
        return source_digest(*(workflow / file for file in files), source=workflow / "src")

    for job in content["jobs"]:
        if "code" in job:
            rule = job["rule"]
            notebooks = [f"notebooks/{job['place']}.ipynb"] if rule == "render_figure" else []
            job["code"] = digest(f"scripts/{record.PROGRAMS.get(rule, rule)}.py", *notebooks)
    jobs.write_text(json.dumps(content, indent=1) + "\n")
    figures = [job["place"] for job in content["jobs"] if job["rule"] == "render_figure"]
    programs = [f"scripts/{path.name}" for path in sorted(workflow.glob("scripts/*.py"))]
    versions = jobs.with_name("versions.json")
    noted = json.loads(versions.read_text())
    notebooks = [f"notebooks/{figure}.ipynb" for figure in figures]
    noted["ntk-conditioning"]["code"] = digest(*programs, *notebooks)
    versions.write_text(json.dumps(noted, indent=1) + "\n")


class Verification:
    """Verification of what differs from a genuine bundle by few files."""

    def __init__(self, genuine: Path) -> None:
        """Verify the genuine bundle, and note how its files are made of each other."""
        self.derivations: Sequence[Derivation] = ()
        self.warnings: list[str] = []
        self.changed: tuple[str, ...] = ()
        self.warnings = self(genuine, ())

    def __call__(self, folder: Path, changed: tuple[str, ...]) -> list[str]:
        """Return what verification warns of.

        Raises:
            BundleError: if it refuses the bundle.
        """
        self.changed = changed
        with ExitStack() as patches:
            patch = partial(mock.patch.object, new_callable=mock.MagicMock)
            if self._of_tables:  # which are no source, no figure, and not looked into by jobs
                for module, name in UNTOUCHED:
                    patches.enter_context(patch(module, name))
                record.require_jobs.return_value = []
                record.require_source.return_value = []
            patches.enter_context(mock.patch.object(verification, "deriving", self._deriving))
            warning = patches.enter_context(patch(verification.log, "warning"))
            verification.verify(folder, render=False)
        lines = [call.args[0] % call.args[1:] for call in warning.call_args_list]
        return [line for line in lines if line not in self.warnings] + self._other_sources(folder)

    def _other_sources(self, folder: Path) -> list[str]:
        """Return the changed sources of which verification says that they are not this checkout's.

        Where some of the genuine bundle's are not, it says the same of one more.
        """
        changed = [name for name in self.changed if name.startswith("workflow/")]
        payload = folder / "data"
        plan = recorded_plan(payload, next(payload.glob("results/*")).name) if changed else None
        unknown = record.require_source(payload, plan) if plan else []
        return [
            f"{name} is not this checkout's"
            for name in changed
            if name.removeprefix("workflow/") in unknown
        ]

    @property
    def _of_tables(self) -> bool:
        return bool(self.changed) and all(name.endswith(".parquet") for name in self.changed)

    @contextmanager
    def _deriving(
        self,
        payload: Path,
        found: Sequence[Derivation],
        programs: Mapping[str, Program],
        checks: Sequence[Callable[[], None]],
    ) -> Iterator[Callable[[], int]]:
        """Do what `deriving` does of what the changed files can reach, cheap ones first."""

        def finish() -> int:
            if not self.derivations:
                self.derivations = found
                return 0
            reached = any(name.endswith(HEAVY) for name in self.changed)
            for check in checks if reached or not self._of_tables else ():
                check()
            for each in sorted(found, key=lambda each: each.program in PAGES):
                names = {name for files in each.inputs.values() for name in files}
                names |= {*each.outputs.values()}
                if each not in self.derivations or names & {*self.changed}:
                    with quiet():
                        problems = problems_of(payload, each, programs[each.program])
                    if problems:
                        raise BundleError(problems[0])
            return len(found)

        yield finish


def attempt(number: int, kind: str, seed: int) -> Outcome:
    """Make a forgery and verify it."""
    rng = random.Random(f"{seed} {kind} {number}")
    # Digests of sources are kept by their path: a changed source is in a folder of its own.
    name = f"{number}" if kind == "source" else "unchanged"
    folder = SCRATCH / f"{os.getpid()}" / name
    shutil.copytree(GENUINE, folder)
    try:
        forged = FORGERS[kind](folder / "data", rng)
        reseal(folder, forged)
        return Outcome(kind, forged, *verdict(folder, forged))
    finally:
        shutil.rmtree(folder)


def verdict(folder: Path, forged: Forged) -> tuple[str, str]:
    """Return the verdict on a forgery, and why."""
    try:
        warnings = VERIFY(folder, forged.files)
    except (BundleError, UserError) as error:
        line = str(error).replace(f"{folder}/", "")
        return "refused" if line.isprintable() else "crashed", line
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {one_line(error)}"
    if warnings:
        return "reported", warnings[0]
    return ("raw", raw(forged)) if raw(forged) else ("accepted", "")


# --- the command ----------------------------------------------------------------------------------


def outcomes(tries: int, seed: int, kinds: Sequence[str]) -> Iterator[Outcome]:
    """Yield the outcomes of random forgeries, made by two processes."""
    turns = [kind for kind in kinds for _ in range(SHARES[kind])]
    context = multiprocessing.get_context("fork")  # which has verified the genuine bundle
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        made = [
            pool.submit(attempt, number, turns[number % len(turns)], seed)
            for number in range(tries)
        ]
        yield from (each.result() for each in made)


def main(argv: Sequence[str] | None = None) -> int:
    global GENUINE, SCRATCH, VERIFY  # for processes that are forked
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", choices=[[], *FORGERS], metavar="KIND")
    parser.add_argument("--bundle", type=Path, help="finished one; else that of a small run")
    parser.add_argument("--tries", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    logging.getLogger("ntk_workflow").setLevel(logging.WARNING)
    found = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        SCRATCH = Path(name)
        bundle = args.bundle or write_bundle(SCRATCH / "small.zip", SCRATCH / "checkout")
        GENUINE = archive.unpack(bundle, SCRATCH / "genuine")
        VERIFY = Verification(GENUINE)
        for each in outcomes(args.tries, args.seed, args.kinds or [*FORGERS]):
            found[each.kind].append(each)
            if each.verdict != "refused":
                forged = f"{each.forged.place}: {each.forged.before!r} to {each.forged.after!r}"
                print(f"{each.verdict}: {forged[:400]}: {each.line[:300]}", flush=True)
    print("| kind | tried", *VERDICTS, sep=" | ", end=" |\n")
    for kind, made in found.items():
        counts = [sum(each.verdict == verdict for each in made) for verdict in VERDICTS]
        print(f"| {kind} | {len(made)}", *counts, sep=" | ", end=" |\n")
    wrong = [each for made in found.values() for each in made]
    return min(1, sum(each.verdict in ("accepted", "crashed") for each in wrong))


if __name__ == "__main__":
    sys.exit(main())
