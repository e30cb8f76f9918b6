"""Tell what differs between two runs: config, code, versions, data and every number of the tables.

A and B are folders like results/demo, or bundles. The page is written in Markdown to stdout. The
exit status is 0 if nothing differs, 1 if something does, and 2 for a mistake.
"""

import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ntk_conditioning.files import write_text
from ntk_workflow.cli import Argv, Parser, not_negative, run_main
from ntk_workflow.comparison.page import page
from ntk_workflow.comparison.runs import compare
from ntk_workflow.provenance.recorded_run import RecordedRun


@run_main
def main(argv: Argv = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("a", type=Path, metavar="A", help="folder of results, or bundle (.zip)")
    parser.add_argument("b", type=Path, metavar="B", help="the same of another run")
    equal = "relative change up to which numbers are equal (default: 0)"
    parser.add_argument("--tolerance", type=not_negative, default=0.0, help=equal)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the same for machines")
    args = parser.parse_args(argv)

    comparison = compare(RecordedRun(args.a), RecordedRun(args.b), tolerance=args.tolerance)
    if args.json:
        text = json.dumps(plain(asdict(comparison) | {"equal": comparison.equal}), indent=2)
        write_text(args.json, text + "\n")
    sys.stdout.write(page(comparison))
    return 0 if comparison.equal else 1


def plain(value: Any) -> Any:
    """Return a value for JSON, which knows neither infinity nor NaN: these become texts."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [plain(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
