"""Verification of a bundle: every byte, the crate, the jobs, and all that follows from it.

Tables and pages that follow from other tables are made again by this checkout's programs. Nothing
of a bundle is executed.
"""

import inspect
import logging
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from ntk_workflow.bundle import BundleError, archive, bag, checks, record
from ntk_workflow.bundle.cells import require_cells
from ntk_workflow.bundle.derivations import Derivation, Program, derivations, deriving, problems_of
from ntk_workflow.bundle.recorded import recorded_plan
from ntk_workflow.cli import Argv
from ntk_workflow.plan import Plan


def run(name: str, words: Argv) -> int | None:
    """Run a program, which is imported here: each takes its time. Raises its errors."""
    main: Program = inspect.unwrap(import_module(name).main)
    return main(words or ())


#: What makes tables and pages of others.
PROGRAMS = {
    name: partial(run, name)
    for name in (
        *("aggregate_conditioning", "aggregate_table", "check_claims", "fit_finite_width"),
        *("fit_width_slopes", "measure_activations", "render_explorer", "select_learning_rates"),
    )
}
#: Of these, what is done in one process with the theory: it needs the same duals.
WITH_THEORY = ("measure_activations",)
OTHER_CODE = "compared with this checkout, whose code of %d rules is not the run's: %s"
OTHER_SOURCE = "files of its source that are not this checkout's: %d, such as %s"

log = logging.getLogger(__name__)


def verify(folder: Path, *, render: bool) -> Plan:
    """Return the plan of an unpacked bundle's run; `BundleError` unless its parts fit together."""
    bag.require_whole(folder)
    payload = folder / bag.PAYLOAD
    records = sorted(payload.glob("results/*/record/jobs.json"))
    if len(records) != 1:
        raise BundleError(f"{len(records)} runs in it, not one: results/*/record/jobs.json")
    made = checks.require_provenance(payload, records[0].relative_to(payload).as_posix())
    plan = recorded_plan(payload, records[0].parts[-3])
    checks.require_results(payload, plan)
    tables = checks.require_tables(payload / "results")
    found = [*derivations(plan, with_rows=bool(plan.config["bundle"]["include_rows"]))]
    constants = [each for each in found if each.program in WITH_THEORY]
    found = [each for each in found if each not in constants]
    beside = [partial(require_theory, payload, plan, constants)]
    with deriving(payload, found, PROGRAMS, beside) as finish:
        # kernels, rocrate and pypdf take their time: they are read while others are at work
        from ntk_workflow.bundle import content, description, joins, relations

        description.require_described(payload)
        require_cells(payload, plan)
        relations.require_relations(payload, plan)
        joins.require_joins(payload, plan)
        unknown = record.require_source(payload, plan)
        others = record.require_jobs(payload, plan, own_source=not unknown)
        record.require_version(payload, plan)
        if unknown:
            log.warning(OTHER_SOURCE, len(unknown), ", ".join(unknown[:10]))
        if others:
            log.warning(OTHER_CODE, len(others), ", ".join(others[:5]))
        description.require_description(folder, payload, plan)
        figures = content.require_figures(payload, plan)
        derived = finish() + len(constants)
    count = len(archive.files_by_name(payload))
    line = "%d files, %d tables, %d figures, %d files known to jobs, %d made again from others"
    log.info(line, count, tables, figures, made, derived)
    if render:
        from ntk_workflow.bundle.rerender import require_same_figures

        log.info("%d figures are the same", require_same_figures(payload, records[0].parts[-3]))
    return plan


def require_theory(payload: Path, plan: Plan, constants: Sequence[Derivation]) -> None:
    """Raise `BundleError` if a table is not as theory, activations and the config have it."""
    from ntk_workflow.bundle import theory  # kernels are heavy

    theory.require_theory(payload, plan)
    for each in constants:
        if problems := problems_of(payload, each, PROGRAMS[each.program]):
            raise BundleError("; ".join(problems))
