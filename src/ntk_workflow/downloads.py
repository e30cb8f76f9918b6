"""Bring a file from the first source that has it, continuing what is there of it.

The sha256 decides whether pieces fit together. (pooch cannot resume, and takes one checksum a file
where Fashion-MNIST has two.)
"""

import logging
import re
import shutil
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from urllib.parse import unquote

import requests
import urllib3

from ntk_conditioning import files
from ntk_conditioning.errors import one_line
from ntk_workflow.progress_bars import progress

log = logging.getLogger(__name__)

#: Seconds of a server's silence, and attempts in a row that bring nothing.
TIMEOUT, ATTEMPTS = 30.0, 6


class SourceError(Exception):
    """Why no source gave the file."""


def fetch(
    part: Path, sources: Iterable[str], accepted: Collection[str], limit: int
) -> tuple[str, str]:
    """Make ``part`` the whole file, from the first of the sources that has it.

    Returns that source, without a password, and the file's sha256, which is one of those
    ``accepted``. More than ``limit`` bytes are refused. Raises `SourceError` with all reasons.
    """
    failures = []
    for source in dict.fromkeys(sources):
        try:
            return without_passwords(source), _complete(part, source, accepted, limit)
        except SourceError as error:
            failures.append(without_passwords(f"{source}: {error}"))
            log.info("%s", failures[-1])
    raise SourceError("; ".join(failures) or "no mirror is given and no address is known")


def _complete(part: Path, source: str, accepted: Collection[str], limit: int) -> str:
    if "://" not in source or source.startswith("file:///"):
        local = Path(unquote(source[7:]) if "://" in source else source)
        if not local.is_file():
            raise SourceError("no such file")
        if (digest := files.sha256(local)) not in accepted:  # must not cost what is here
            raise SourceError(f"has another file, of sha256 {digest}")
        shutil.copyfile(local, part)
        return digest
    failures = 0
    while True:
        before = _size(part)
        try:
            _receive(part, source, limit)
        except (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError) as error:
            failures = 1 if _size(part) > before else failures + 1
            root: BaseException = error
            while (cause := root.__cause__ or root.__context__) is not None:
                root = cause
            problem = getattr(root, "strerror", None) or one_line(root) or type(root).__name__
            if failures == ATTEMPTS:
                raise SourceError(problem) from None
            log.info("%s: %s; again in %d s", without_passwords(source), problem, 2**failures)
            time.sleep(2**failures)
            continue
        except requests.RequestException as error:  # no valid address, endless redirects
            raise SourceError(one_line(error)) from None
        if (digest := files.sha256(part)) in accepted:
            return digest
        part.unlink()
        if not before:  # else of pieces that may not fit together: once more, the whole
            raise SourceError(f"has another file, of sha256 {digest}")


def _receive(part: Path, source: str, limit: int) -> None:
    """Ask a server for what ``part`` lacks of the file, and write it there as it arrives."""
    have = _size(part)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(source, headers=headers, timeout=TIMEOUT, stream=True) as response:
        status, given = response.status_code, response.headers
        if status == 416 and have:
            return  # nothing is missing, if the sha256 is right
        if status in (408, 429) or status >= 500:  # it may have the file later
            raise requests.ConnectionError(f"{status} {response.reason}")
        if status not in (200, 206):
            raise SourceError(f"{status} {response.reason}")
        if given.get("Content-Type", "").startswith("text/html"):
            raise SourceError("sent a web page")  # which must not cost what is here
        have = have if status == 206 else 0
        total = have + int(given.get("Content-Length", 0))
        log.info("%d bytes from %s, from %d on", total, without_passwords(source), have)
        # What has arrived survives a kill. The bytes stay as they were sent, whatever
        # Content-Encoding a server gives to .gz.
        with (
            part.open("ab" if have else "wb") as stream,
            progress(total=total or None, initial=have, unit="byte") as bar,
        ):
            while chunk := response.raw.read1(2**16, decode_content=False):
                have += len(chunk)
                if max(have, total) > limit:
                    part.unlink()
                    raise SourceError(f"sends more than {limit} bytes, twice what it should")
                stream.write(chunk)
                stream.flush()
                bar.update(len(chunk))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def without_passwords(text: str) -> str:
    """Return a text without the passwords in its addresses."""
    return re.sub(r"(?<=://)[^/?#\s]*@", "", text)
