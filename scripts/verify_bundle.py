"""Verify a bundle: checksums, crate, signature, config and tables.

With --rerun this checkout's workflow makes tables, claims and figures again from the rows; with
--recompute it computes some rows again from the data. Nothing of a bundle is executed.
"""

import os
from pathlib import Path

from ntk_conditioning.files import scratch_folder, sha256
from ntk_workflow.bundle import BundleError, archive, verification
from ntk_workflow.bundle.signatures import made_by
from ntk_workflow.cli import Argv, Parser, logger, positive_integer, run_main
from ntk_workflow.comparison import RunError

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("bundle", type=Path, help="bundle (.zip)")
    help = "make all that follows from the rows again and compare it"
    parser.add_argument("--rerun", action="store_true", help=help)
    help = "compute that many files of rows again, drawn at random"
    parser.add_argument("--recompute", type=positive_integer, metavar="N", help=help)
    help = "who may have signed it, a file of lines NAME KEY as ssh-keygen's ALLOWED SIGNERS"
    parser.add_argument("--signers", type=Path, help=help)
    help = "folder or address where its original files are looked for first, by default data"
    parser.add_argument("--mirror", default="data", help=help)
    args = parser.parse_args(argv)
    maker = made_by(args.bundle, args.signers)
    with scratch_folder() as scratch:
        folder = archive.unpack(args.bundle, scratch)
        try:
            bundle = verification.verify(folder)
            log.info("%d files and %d tables are whole", bundle.files, bundle.tables)
            if args.rerun:
                log.info(verification.rerun(bundle, scratch))
            if args.recompute:
                mirror = args.mirror
                log.info(
                    verification.recompute(bundle, args.recompute, mirror=mirror, scratch=scratch)
                )
        except (BundleError, RunError) as error:
            reason = str(error).replace(f"{folder / archive.PAYLOAD}{os.sep}", "")
            raise BundleError(f"{args.bundle}: {reason}") from None
    uncovered = ["that tables, claims and figures follow from the rows (RERUN=1)"]
    uncovered = [] if args.rerun else uncovered
    if not args.recompute:
        uncovered.append("that the rows follow from the data (RECOMPUTE=20)")
    if bundle.own:
        log.info("its run needs Python files of its author's (%s)", ", ".join(bundle.own))
    if uncovered:
        log.info("not checked: %s", "; ".join(uncovered))
    log.info("%s: consistent; %s; sha256 %s", args.bundle, maker, sha256(args.bundle))


if __name__ == "__main__":
    raise SystemExit(main())
