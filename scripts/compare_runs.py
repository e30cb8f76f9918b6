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

from ntk_conditioning.files import scratch_folder, write_text
from ntk_workflow.bundle import BundleError, archive, bag
from ntk_workflow.bundle.signatures import made_by
from ntk_workflow.cli import Argv, Parser, logger, not_negative, run_main
from ntk_workflow.comparison.page import page
from ntk_workflow.comparison.runs import compare
from ntk_workflow.provenance.recorded_run import RecordedRun

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("a", type=Path, metavar="A", help="folder of results, or bundle (.zip)")
    parser.add_argument("b", type=Path, metavar="B", help="the same of another run")
    equal = "relative change up to which numbers are equal (default: 0)"
    parser.add_argument("--tolerance", type=not_negative, default=0.0, help=equal)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the same for machines")
    args = parser.parse_args(argv)

    with scratch_folder() as scratch:
        a, b = (recorded_run(path, scratch / name) for name, path in (("a", args.a), ("b", args.b)))
        comparison = compare(a, b, tolerance=args.tolerance)
    if args.json:
        text = json.dumps(plain(asdict(comparison) | {"equal": comparison.equal}), indent=2)
        write_text(args.json, text + "\n")
    sys.stdout.write(page(comparison))
    return 0 if comparison.equal else 1


def recorded_run(path: Path, scratch: Path) -> RecordedRun:
    """Return a run; a bundle is unpacked, and refused unless its bytes are those of its manifests.

    Whether its parts fit together, only verification by a checkout of its version can say.
    """
    if path.is_dir():
        return RecordedRun(path)
    folder = archive.unpack(path, scratch)
    try:
        bag.require_whole(folder)
    except BundleError as error:
        raise BundleError(f"{path}: {error}") from None
    runs = sorted((folder / bag.PAYLOAD / "results").glob("*"))
    if len(runs) != 1:
        raise BundleError(f"{path}: {len(runs)} runs in it, not one: results/*")
    log.info("%s: whole, by its checksums; %s", path, made_by(path))
    return RecordedRun(path, runs[0])


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
