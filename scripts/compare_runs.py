"""Tell what differs between two runs: config, code, versions, data and every number of the tables.

A and B are folders like results/demo, or bundles. The page is written in Markdown to stdout. The
exit status is 0 if nothing differs, 1 if something does, and 2 for a mistake.
"""

import json
import sys
from pathlib import Path
from typing import Any

from ntk_conditioning.files import scratch_folder, write_text
from ntk_workflow.bundle import archive
from ntk_workflow.bundle.signatures import made_by
from ntk_workflow.cli import Argv, Parser, log, not_negative, program
from ntk_workflow.comparison import PARTS, compare
from ntk_workflow.pages.rendering import render, where


def short(value: Any) -> str:
    """Return a value for a cell of the page."""
    text = f"{value:.17g}" if isinstance(value, float) else str(value)
    text = "missing" if text in ("None", "nan") else " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= 60 else f"{text[:59]}…"


@program
def main(argv: Argv = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("a", type=Path, metavar="A", help="folder of results, or bundle (.zip)")
    parser.add_argument("b", type=Path, metavar="B", help="the same of another run")
    parser.add_argument("--tolerance", type=not_negative, default=0.0, help="relative change")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the same for machines")
    args = parser.parse_args(argv)
    runs = [args.a, args.b]
    with scratch_folder() as scratch:
        for index, path in enumerate(runs):
            if not path.is_dir():
                runs[index] = archive.unpack(path, scratch / str(index))
                log.info("%s: whole, by its checksums; %s", path, made_by(path))
        differences = compare(*runs, tolerance=args.tolerance)
    differences |= {"a": str(args.a), "b": str(args.b)}
    if args.json:
        write_text(args.json, json.dumps(differences, indent=2, default=str) + "\n")
    different = {name: table for name, table in differences["tables"].items() if not table["equal"]}
    given = {"found": differences, "parts": PARTS, "different": different}
    sys.stdout.write(render("comparison.md.j2", **given, short=short, where=where))
    return 0 if differences["equal"] else 1
