"""Check that a bundle is consistent: every byte, the crate, the jobs, and all that follows from it.

Tables and pages that follow from other tables are made again by this checkout's programs. Nothing
of a bundle is executed. With --render the figures are drawn again, by this checkout's notebooks.
"""

import random
from pathlib import Path

from ntk_conditioning.files import scratch_folder, sha256
from ntk_workflow.bundle import BundleError, archive
from ntk_workflow.bundle.signatures import made_by
from ntk_workflow.cli import (
    Argv,
    Parser,
    UsageError,
    logger,
    positive_integer_or_all,
    run_main,
)

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("bundle", type=Path, help="bundle (.zip), or the folder in it")
    parser.add_argument("--render", action="store_true", help="draw the figures again, too")
    help = "who may have signed it, a file of lines NAME KEY as ssh-keygen's ALLOWED SIGNERS"
    parser.add_argument("--signers", type=Path, help=help)
    help = "run that many of its jobs again, drawn at random, or all, and compare the rows"
    parser.add_argument("--recompute", type=positive_integer_or_all, metavar="N", help=help)
    help = "folder or address where their original files are looked for first, by default data"
    parser.add_argument("--mirror", default="data", help=help)
    args = parser.parse_args(argv)
    if args.signers and args.bundle.is_dir():
        raise UsageError(f"{args.bundle}: a folder has no signature; give the bundle (.zip)")
    maker = made_by(args.bundle, args.signers)
    with scratch_folder() as scratch:
        folder = args.bundle if args.bundle.is_dir() else archive.unpack(args.bundle, scratch)
        from ntk_workflow.bundle import bag, verification

        try:
            plan = verification.verify(folder, render=args.render)
            if args.recompute:
                from ntk_workflow.bundle import recomputation

                payload = folder / bag.PAYLOAD
                rng = random.SystemRandom()  # no forger can foresee it
                count = args.recompute
                recomputed = recomputation.require_recomputed
                log.info(recomputed(payload, plan, count, mirror=args.mirror, rng=rng))
        except BundleError as error:
            raise BundleError(f"{args.bundle}: {error}") from None
    if args.bundle.is_file():
        log.info("%s: consistent; %s; sha256 %s", args.bundle, maker, sha256(args.bundle))


if __name__ == "__main__":
    raise SystemExit(main())
