"""Record who made a run's files: every job with its code, inputs, outputs, device and times."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ntk_conditioning.files import write_text
from ntk_workflow.bundle import jobs
from ntk_workflow.cli import Parser, json_object, logger, run_main
from ntk_workflow.plan import cells
from ntk_workflow.provenance.snakemake_records import Records

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    outputs = [*args.files, *(f"{args.results}/{cell}" for cell in cell_names(args))]
    found = jobs.provenance(outputs, Records(Path.cwd()), args.logs)
    write_text(args.output, json.dumps(found, indent=1) + "\n")
    log.info("%d jobs, %d files", len(found["jobs"]), len(found["files"]))
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = Parser(description=__doc__)
    parser.add_argument("--results", required=True, help="folder of the run")
    parser.add_argument("--files", nargs="+", required=True, help="tables, figures, ... of the run")
    parser.add_argument("--main-grid", required=True, help="cells of the run, as JSON")
    parser.add_argument("--study-grid", required=True, help="further spectra, as JSON")
    parser.add_argument("--training-grids", nargs="*", default=[], help="trainings, as JSON")
    parser.add_argument(
        "--logs", type=json_object, required=True, help="by rule, the expression of its logs"
    )
    parser.add_argument("--output", type=Path, required=True, help="record to write (.json)")
    return parser.parse_args(argv)


def cell_names(args: argparse.Namespace) -> list[str]:
    """Return all cells below the folder of the run; a command line cannot hold their names."""
    main_grid, study = cells.Grid.from_json(args.main_grid), cells.Grid.from_json(args.study_grid)
    trainings = [cells.TrainingGrid.from_json(text) for text in args.training_grids]
    return [
        *(f"spectra/{cell}" for cell in cells.spectrum_cells([main_grid, study])),
        *(f"angles/{cell}" for cell in cells.angle_cells([main_grid])),
        *(f"training/{cell}" for cell in cells.training_cells(trainings)),
        *(f"training_kernels/{cell}" for cell in cells.training_kernel_cells(trainings)),
    ]


if __name__ == "__main__":
    sys.exit(main())
