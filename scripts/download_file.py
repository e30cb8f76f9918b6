"""Bring one file of a dataset into the data folder, checked by its sha256.

The mirror is tried first: a folder, a file:// address or an http(s) base address that holds the
file under its catalogue name; then the addresses in their order. A partial download is kept and
continued. A file in place with the right content is left alone, so it may be put there by hand.
"""

import json
from pathlib import Path

from ntk_conditioning import files
from ntk_workflow import cli, downloads

log = cli.logger(__file__)

HINT = ", or name a mirror that has it: --config mirror=DIR"


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(prog="download_file.py", description=__doc__)
    add = parser.add_argument
    add("--name", required=True, help="catalogue name, e.g. mnist/images.gz")
    add("--output", required=True, type=Path, metavar="FILE", help="where to put the file")
    accepted = "accepted checksums, the official file's first"
    add("--sha256", required=True, nargs="+", metavar="HEX", help=accepted)
    add("--bytes", type=int, default=0, metavar="N", help="size of the official file, if known")
    add("--mirror", default="", metavar="BASE", help="folder or address that holds NAME")
    add("--urls", nargs="*", default=[], metavar="URL", help="addresses of the file itself")
    add("--receipt", type=Path, metavar="JSON", help="where to record that the file is in place")
    args = parser.parse_args(argv)

    options = {"mirror": args.mirror, "urls": args.urls, "size": max(args.bytes, 0)}
    fetched = downloads.fetch(args.output, name=args.name, sha256=args.sha256, **options, hint=HINT)
    if fetched.source is None:
        log.info("%s: %s is in place with the right sha256, nothing to do", args.name, args.output)
    else:
        result = (args.name, fetched.size, fetched.source, fetched.sha256)
        log.info("%s: %d bytes from %s, sha256 %s", *result)
    if args.receipt:  # without the source, which cannot change the content
        receipt = {"name": args.name, "bytes": fetched.size, "sha256": fetched.sha256}
        files.write_text(args.receipt, json.dumps(receipt) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
