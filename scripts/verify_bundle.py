"""Check that a bundle is as it was made: every byte, the crate, the tables, the jobs' checksums.

Nothing of a bundle is executed. With --render the figures are drawn again from its tables, by this
checkout's notebooks, and compared with its pictures.
"""

import tempfile
from pathlib import Path

from ntk_conditioning.files import sha256
from ntk_workflow.bundle import BundleError, archive, bag, checks
from ntk_workflow.bundle.rerender import require_same_figures
from ntk_workflow.cli import Argv, Parser, logger, run_main

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("bundle", type=Path, help="bundle (.zip), or the folder in it")
    parser.add_argument("--render", action="store_true", help="draw the figures again, too")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.bundle if args.bundle.is_dir() else archive.unpack(args.bundle, Path(scratch))
        try:
            verify(folder, render=args.render)
        except BundleError as error:
            raise BundleError(f"{args.bundle}: {error}") from None
    if args.bundle.is_file():
        log.info("%s: as it was made; sha256 %s", args.bundle, sha256(args.bundle))


def verify(folder: Path, *, render: bool) -> None:
    """Raise `BundleError` unless an unpacked bundle is as it was made."""
    bag.require_whole(folder)
    payload = folder / bag.PAYLOAD
    records = sorted(payload.glob("results/*/record/jobs.json"))
    if len(records) != 1:
        raise BundleError(f"{len(records)} runs in it, not one: results/*/record/jobs.json")
    made = checks.require_provenance(payload, records[0].relative_to(payload).as_posix())
    tables = checks.require_tables(payload / "results")
    checks.require_described(payload)
    count = len(archive.files_by_name(payload))
    log.info("%d files, %d tables, %d files known to jobs", count, tables, made)
    if render:
        log.info("%d figures are the same", require_same_figures(payload, records[0].parts[-3]))


if __name__ == "__main__":
    raise SystemExit(main())
