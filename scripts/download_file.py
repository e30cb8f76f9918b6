"""Bring one file of a dataset into the data folder, checked by its sha256.

The mirror is asked first: a folder, a file:// address or an http(s) base address that holds the
file under its catalogue name; then the addresses in their order. What has come of a file is kept
and continued. A file in place with the right content is left alone, so one may also be put there
by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ntk_conditioning import files
from ntk_workflow import cli, downloads

log = cli.logger(__file__)


def parser() -> cli.Parser:
    default = downloads.PATIENCE
    arguments = cli.Parser(prog="download_file.py", description=__doc__)
    add = arguments.add_argument
    add("--name", required=True, metavar="NAME", help="catalogue name, e.g. mnist/images.gz")
    add("--output", required=True, type=Path, metavar="FILE", help="where the file is to be")
    add(
        *("--sha256",),
        required=True,
        nargs="+",
        metavar="HEX",
        help="accepted checksums, the official file's first",
    )
    add("--bytes", type=int, default=0, metavar="N", help="size of the official file, if known")
    add("--mirror", default="", metavar="BASE", help="folder or address that holds NAME")
    add("--urls", nargs="*", default=[], metavar="URL", help="addresses of the file itself")
    add(
        "--attempts",
        type=cli.positive_integer,
        default=default.attempts,
        metavar="N",
        help="give a source up after N attempts in a row that brought nothing (%(default)s)",
    )
    add(
        "--timeout",
        type=cli.positive_integer,
        default=default.timeout,
        metavar="SECONDS",
        help="how long a server may be silent (%(default)g)",
    )
    add("--receipt", type=Path, metavar="JSON", help="where to write that the file is in place")
    return arguments


@cli.run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    output: Path = args.output
    fetched = downloads.fetch(
        output,
        name=args.name,
        sha256=args.sha256,
        mirror=args.mirror,
        urls=args.urls,
        size=args.bytes if args.bytes > 0 else None,
        patience=downloads.Patience(attempts=args.attempts, timeout=args.timeout),
    )
    if fetched.source is None:
        log.info("%s: %s is in place with the right sha256, nothing to do", args.name, output)
    else:
        log.info(
            *("%s: %d bytes from %s, sha256 %s", args.name, fetched.size),
            *(fetched.source, fetched.sha256),
        )
    if args.receipt:
        # Not where it came from: that cannot change what is in it.
        receipt = {"name": args.name, "bytes": fetched.size, "sha256": fetched.sha256}
        files.write_text(args.receipt, json.dumps(receipt) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
