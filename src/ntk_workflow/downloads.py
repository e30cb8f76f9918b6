"""Download one file, from a mirror or the first address that has it.

A download survives broken connections and kills: a partial file stays beside the target as
``.{name}.part``; the next attempt, run or source continues it, and the sha256 decides whether the
pieces fit together. (pooch cannot resume, and takes one checksum a file where Fashion-MNIST has
two.)
"""

import logging
import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import filelock
import requests
import urllib3

from ntk_conditioning import files
from ntk_conditioning.errors import UserError, one_line
from ntk_workflow.progress import progress

log = logging.getLogger(__name__)

#: Seconds of a server's silence, and of the longest pause, even if it asks for more.
TIMEOUT, LONGEST_PAUSE = 30.0, 120.0
#: Attempts in a row that bring nothing.
ATTEMPTS = 6
#: Most bytes of a file whose size is not catalogued.
UNKNOWN_SIZE = 20_000_000_000


class _SourceError(Exception):
    """Why a source did not give the file; ``again`` are seconds after which it may, if ever."""

    def __init__(self, message: str, again: float | None = None) -> None:
        super().__init__(message)
        self.again = again


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A file in place; ``source`` is None if it was there before."""

    source: str | None
    sha256: str
    size: int


def fetch(
    target: Path,
    *,
    name: str,
    sha256: Sequence[str],
    mirror: str = "",
    urls: Sequence[str] = (),
    size: int = 0,
    hint: str = "",
) -> Fetched:
    """Return what is at ``target``, after fetching it from the first source that has it.

    ``name`` is the file's in the catalogue and below the ``mirror``, a folder, file:// or http(s)
    base address that is tried before the ``urls``. ``sha256`` are accepted checksums, the official
    file's first; ``size`` is that file's, if known: more than twice as many bytes are refused.
    Concurrent calls for one target, also in other processes, share one download. An existing file
    is replaced only by one with an accepted checksum.

    Raises `UserError` if no source has the file, with ``hint`` as a further remedy, or if it cannot
    be written.
    """
    accepted = [digest.lower() for digest in sha256]
    base = f"{mirror.rstrip('/')}/{quote(name) if '://' in mirror else name}"
    part, failures = target.with_name(f".{target.name}.part"), []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(target.with_name(f".{target.name}.lock"), mode=0o666):
            if target.is_file() and (digest := files.sha256(target)) in accepted:
                return Fetched(source=None, sha256=digest, size=target.stat().st_size)
            for source in dict.fromkeys([base, *urls] if mirror else urls):
                try:
                    digest = _complete(part, source, accepted, 2 * size or UNKNOWN_SIZE)
                except _SourceError as error:
                    failures.append(_without_passwords(f"{source}: {error}"))
                    log.info("%s: %s", name, failures[-1])
                    continue
                os.replace(part, target)
                shown, size = _without_passwords(source), target.stat().st_size
                return Fetched(source=shown, sha256=digest, size=size)
    except OSError as error:
        need = f"; the file needs {size} bytes there" if size else ""
        problem = f"cannot write {error.filename or part}: {error.strerror or error}{need}"
        raise UserError(problem) from error
    wrong = f", {target} has another sha256" if target.exists() else ""
    reasons = "; ".join(failures) or "no mirror is given and no address is known"
    raise UserError(
        f"{name} cannot be fetched{wrong}: {reasons}; "
        f"get the file with sha256 {accepted[0]} by hand and save it as {target}{hint}"
    )


def _complete(part: Path, source: str, accepted: Sequence[str], limit: int) -> str:
    """Make ``part`` the whole file from one source, whatever is there of it; return its sha256."""
    if "://" not in source or source.startswith("file:///"):
        local = Path(unquote(source[7:]) if "://" in source else source)
        if not local.is_file():
            raise _SourceError("no such file")
        digest = _accepted(local, accepted)  # first: a damaged mirror must not cost what is here
        shutil.copyfile(local, part)
        return digest
    failures = 0
    while True:
        before = _size(part)
        try:
            _receive(part, source, limit)
            try:
                return _accepted(part, accepted)
            except _SourceError as error:
                part.unlink()
                # of pieces, which may not fit together, the whole is asked for once more
                raise _SourceError(str(error), again=0 if before else None) from None
        except _SourceError as error:
            failures = 1 if _size(part) > before else failures + 1
            if error.again is None or failures >= ATTEMPTS:
                raise
            pause = min(max(2.0 ** (failures - 1), error.again), LONGEST_PAUSE)
            log.info("%s; again in %.0f s", _without_passwords(f"{source}: {error}"), pause)
            time.sleep(pause)


def _receive(part: Path, source: str, limit: int) -> None:
    """Ask a server for what ``part`` lacks of the file, and write it there as it arrives."""
    have = _size(part)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with requests.get(source, headers=headers, timeout=TIMEOUT, stream=True) as response:
            status, given = response.status_code, response.headers
            if status in (408, 429) or status >= 500:
                after = given.get("Retry-After", "")
                seconds = float(after) if after.isdecimal() else 0.0
                raise _SourceError(f"{status} {response.reason}", again=seconds)
            if status == 416 and have:
                return  # nothing is missing, if the sha256 is right
            if status not in (200, 206):
                raise _SourceError(f"{status} {response.reason}")
            if given.get("Content-Type", "").startswith("text/html"):
                raise _SourceError("sent a web page")  # which must not cost what is here
            have = have if status == 206 else 0
            total = have + int(given.get("Content-Length", 0))
            log.info("%d bytes from %s, from %d on", total, _without_passwords(source), have)
            # What has arrived survives a kill. The bytes stay as they were sent, whatever
            # Content-Encoding a server gives to .gz.
            with (
                part.open("ab" if have else "wb") as stream,
                progress(total=total or None, done=have, unit="byte", log=log) as bar,
            ):
                while chunk := response.raw.read1(2**16, decode_content=False):
                    have += len(chunk)
                    if max(have, total) > limit:
                        part.unlink()
                        raise _SourceError(f"sends more than {limit} bytes, twice what it should")
                    stream.write(chunk)
                    stream.flush()
                    bar.update(len(chunk))
    except (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError) as error:
        root: BaseException = error
        while (cause := root.__cause__ or root.__context__) is not None:
            root = cause
        words = getattr(root, "strerror", None) or one_line(root) or type(root).__name__
        raise _SourceError(words, again=0) from None
    except requests.RequestException as error:  # no valid address, endless redirects
        raise _SourceError(one_line(error)) from None


def _accepted(path: Path, accepted: Sequence[str]) -> str:
    if (digest := files.sha256(path)) in accepted:
        return digest
    raise _SourceError(f"has another file, of {_size(path)} bytes and sha256 {digest}")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _without_passwords(text: str) -> str:
    """Return a text without the passwords in its addresses.

    >>> _without_passwords("https://me:secret@example.org/images.gz")
    'https://example.org/images.gz'
    """
    return re.sub(r"(?<=://)[^/?#\s]*@", "", text)
