"""Bring one file of a dataset into the data folder, checked by its sha256.

The mirror is tried first, which holds the file under its catalogue name, then the addresses in
their order. A partial download is continued. A file in place with the right content is left alone.
"""

import json
import os
from pathlib import Path
from urllib.parse import quote

import filelock

from ntk_conditioning import files
from ntk_conditioning.errors import UserError
from ntk_workflow import cli, downloads


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(prog="download_file.py", description=__doc__)
    add = parser.add_argument
    add("--name", required=True, help="catalogue name, e.g. mnist/images.gz")
    add("--output", required=True, type=Path, metavar="FILE", help="where to put the file")
    add("--sha256", required=True, nargs="+", metavar="HEX", help="accepted checksums")
    add("--bytes", type=int, default=0, metavar="N", help="size of the official file, if known")
    add("--mirror", default="", metavar="BASE", help="folder or address that holds NAME")
    add("--urls", nargs="*", default=[], metavar="URL", help="addresses of the file itself")
    add("--receipt", type=Path, metavar="JSON", help="where to record that the file is in place")
    args = parser.parse_args(argv)

    target, mirror = args.output, args.mirror.rstrip("/")
    part = target.with_name(f".{target.name}.part")
    sources = [f"{mirror}/{quote(args.name) if '://' in mirror else args.name}"] if mirror else []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # jobs of several runs share one download
        lock = filelock.FileLock(target.with_name(f".{target.name}.lock"), mode=0o666)
        with lock, files.room_for(part, f"the file needs {args.bytes or 'more'} bytes there"):
            digest = files.sha256(target) if target.is_file() else None
            if digest in args.sha256:
                cli.log.info("%s is in place with the right sha256, nothing to do", target)
            else:
                sources += args.urls
                limit = 2 * args.bytes or 20_000_000_000
                source, digest = downloads.fetch(part, sources, args.sha256, limit)
                os.replace(part, target)
                cli.log.info("%s from %s, sha256 %s", args.name, source, digest)
    except downloads.SourceError as error:
        wrong = f", {target} has another sha256" if target.exists() else ""
        raise UserError(
            f"{args.name} cannot be fetched{wrong}: {error}; get the file with sha256 "
            f"{args.sha256[0]} by hand and save it as {target}, or name a mirror that has it: "
            "--config mirror=DIR"
        ) from None
    if args.receipt:  # without the source, which cannot change the content
        receipt = {"name": args.name, "bytes": target.stat().st_size, "sha256": digest}
        files.write_text(args.receipt, json.dumps(receipt) + "\n")
