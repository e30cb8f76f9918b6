"""Bring one file of a dataset into the data folder, checked by its sha256.

It is copied from a mirror: a folder that holds the file under its catalogue name. A file that is
already in place with the right content is left alone, so one may also be put there by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import cli

from ntk_conditioning import files
from ntk_conditioning.errors import UserError

log = cli.logger(__file__)


class NotAvailableError(UserError):
    """The file is in no place that was looked at."""


class MirrorError(UserError):
    """The mirror is not a place that files are copied from."""


def parser() -> cli.Parser:
    arguments = cli.Parser(prog="download_file.py", description=__doc__)
    add = arguments.add_argument
    add("--name", required=True, metavar="NAME", help="catalogue name, e.g. mnist/images.gz")
    add("--output", required=True, type=Path, metavar="FILE", help="where the file is to be")
    add("--sha256", required=True, nargs="+", metavar="HEX", help="accepted checksums")
    add("--mirror", metavar="FOLDER", help="folder, or its file:// address, that holds NAME")
    add("--urls", nargs="*", default=[], metavar="URL", help="official addresses, for the message")
    return arguments


@cli.run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    output: Path = args.output
    if output.is_file() and files.sha256(output) in args.sha256:
        log.info("%s: %s is in place with the right sha256, nothing to do", args.name, output)
        return 0
    source = mirror_folder(args.mirror) / args.name if args.mirror else None
    if source is None or not source.is_file():
        raise NotAvailableError(not_available(args.name, output, source, args.urls))
    digest = files.copy_verified(source, output, accepted=args.sha256)
    log.info("%s: %d bytes from %s, sha256 %s", args.name, output.stat().st_size, source, digest)
    return 0


def mirror_folder(mirror: str) -> Path:
    """Return the folder that a path or a file:// address names."""
    address = urlsplit(mirror)
    if "://" not in mirror:
        return Path(mirror)
    if address.scheme != "file" or address.netloc not in ("", "localhost"):
        raise MirrorError(f"mirror {mirror} is neither a folder nor its file:// address")
    return Path(url2pathname(address.path))


def not_available(name: str, output: Path, source: Path | None, urls: Sequence[str]) -> str:
    """Return what is missing, where it was looked for, and how to bring it by hand."""
    state = "has another sha256" if output.is_file() else "does not exist"
    looked = "no mirror is given" if source is None else f"the mirror has no file {source}"
    official = f"download {' or '.join(urls)}" if urls else "get it from its authors"
    return f"{name} is not here: {output} {state} and {looked}; {official} and save it as {output}"


if __name__ == "__main__":
    sys.exit(main())
