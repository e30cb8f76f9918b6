"""Record who made a run's files: every job with its code, inputs, outputs, device and times."""

import json
from pathlib import Path

from ntk_conditioning.files import write_text
from ntk_workflow.cli import Argv, Parser, logger, run_main
from ntk_workflow.provenance import jobs
from ntk_workflow.snakemake_internals import Records

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--files", nargs="+", required=True, help="tables, figures, rows, ...")
    parser.add_argument("--root", default="", help="what names of files begin with, left out")
    parser.add_argument("--output", type=Path, required=True, help="record to write (.json)")
    args = parser.parse_args(argv)

    made = jobs.provenance(args.files, Records(Path.cwd()), root=args.root)
    write_text(args.output, json.dumps(made, indent=1, sort_keys=True) + "\n")
    log.info("%d jobs, %d files", len(made["jobs"]), len(made["files"]))


if __name__ == "__main__":
    raise SystemExit(main())
