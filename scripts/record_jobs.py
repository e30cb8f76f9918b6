"""Record who made a run's files: every job with its code, inputs, outputs, device and times."""

import json
from dataclasses import replace
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
    records = Records(Path.cwd())
    # what a workflow that imports this one has put before and after its rules' names
    first = next((path for path in args.files if path.endswith("/record/versions.json")), "")
    known = records(first)
    before, ours, after = (known.rule if known else "").partition("record_run")

    def record(path: str) -> jobs.Record | None:
        """Return the record of a job of ours, with the name that its rule has here."""
        known = records(path)
        if not known or not (known.rule.startswith(before) and known.rule.endswith(after)):
            return None
        return replace(known, rule=known.rule.removeprefix(before).removesuffix(after))

    made = jobs.provenance(args.files, record if ours else records, root=args.root)
    write_text(args.output, json.dumps(made, indent=1) + "\n")
    log.info("%d jobs, %d files", len(made["jobs"]), len(made["files"]))


if __name__ == "__main__":
    raise SystemExit(main())
