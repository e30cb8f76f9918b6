"""Record who made a run's files: every job with its code, inputs, outputs, device and times."""

import json
from dataclasses import replace
from pathlib import Path

from ntk_conditioning.files import write_text
from ntk_workflow.bundle import jobs
from ntk_workflow.cli import Argv, Parser, logger, run_main
from ntk_workflow.snakemake_internals import Records

RULE = Path(__file__).stem

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--files", nargs="+", required=True, help="tables, figures, rows, ...")
    parser.add_argument("--root", default="", help="what names of files begin with, left out")
    named = "name of this rule, which a workflow that imports it may have changed with all others"
    parser.add_argument("--rule", default=RULE, metavar="NAME", help=named)
    parser.add_argument("--output", type=Path, required=True, help="record to write (.json)")
    args = parser.parse_args(argv)
    before, _, after = args.rule.partition(RULE)
    records = Records(Path.cwd())

    def record(path: str) -> jobs.Record | None:
        """Return the record of a job of ours, with the name that its rule has here."""
        known = records(path)
        if known is None or not (known.rule.startswith(before) and known.rule.endswith(after)):
            return None
        return replace(known, rule=known.rule.removeprefix(before).removesuffix(after))

    made = jobs.provenance(args.files, record, root=args.root)
    write_text(args.output, json.dumps(made, indent=1) + "\n")
    log.info("%d jobs, %d files", len(made["jobs"]), len(made["files"]))


if __name__ == "__main__":
    raise SystemExit(main())
