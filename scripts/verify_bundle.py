"""Verify a bundle: checksums, crate, signature, config and tables.

With --rerun this checkout's workflow makes tables, claims and figures again from the rows; with
--recompute it computes some rows again from the data. Nothing of a bundle is executed.
"""

from pathlib import Path

from ntk_conditioning.errors import UserError
from ntk_conditioning.files import scratch_folder, sha256
from ntk_workflow.bundle import archive, crate, verification
from ntk_workflow.bundle.signatures import made_by
from ntk_workflow.cli import Argv, Parser, log, positive_integer, program
from ntk_workflow.config import user_programs


@program
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("bundle", type=Path, help="bundle (.zip)")
    add("--rerun", action="store_true", help="make all that follows from the rows again")
    add("--recompute", type=positive_integer, metavar="N", help="compute N files of rows again")
    add("--signers", type=Path, help="who may have signed it, as ssh-keygen's ALLOWED SIGNERS")
    add("--mirror", default="data", help="folder or address of its original files")
    args = parser.parse_args(argv)

    unchecked = []
    maker = made_by(args.bundle, args.signers)
    with scratch_folder() as scratch:
        results = archive.unpack(args.bundle, scratch / "bundle")
        try:
            crate.require_crate(results.parents[1])
            config, tables = verification.verify(results)
            log.info("all files and %d tables are whole", tables)
            if args.rerun:
                log.info(verification.rerun(results, config, scratch / "rerun"))
            else:
                unchecked.append("that tables, claims and figures follow from the rows (RERUN=1)")
            if args.recompute:
                count, again = args.recompute, scratch / "recompute"
                log.info(verification.recompute(results, config, count, args.mirror, again))
            else:
                unchecked.append("that the rows follow from the data (RECOMPUTE=20)")
        except UserError as error:
            raise UserError(f"{args.bundle}: {error}") from None
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise UserError(f"{args.bundle}: damaged, or no bundle: {error!r}") from None
    if own := user_programs(config):
        log.info("its run needs Python files of its author's (%s)", ", ".join(own))
    if unchecked:
        log.info("not checked: %s", "; ".join(unchecked))
    log.info("%s: consistent; %s; sha256 %s", args.bundle, maker, sha256(args.bundle))
