"""Download one file, from a mirror or the first address that has it.

A download survives broken connections and kills: a partial file stays beside the target as
``.{name}.part``; the next attempt, run or source continues it, and the sha256 decides whether the
pieces fit together. (pooch cannot resume, takes one checksum a file where Fashion-MNIST has two,
and hashes all gigabytes once more.)
"""

import logging
import os
import random
import re
import shutil
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
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

_CHUNK = 1 << 20
_LEAST = 1024  # fewer bytes are no progress: a dripping server would never be given up


class _SourceError(Exception):
    """Why a source did not give the file; ``again`` are seconds after which it may, if ever."""

    def __init__(self, message: str, again: float | None = None) -> None:
        super().__init__(message)
        self.again = again


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How long a source is tried; times are in seconds."""

    attempts: int = 6  # in a row without progress
    timeout: float = 30.0  # of a server's silence
    first_wait: float = 1.0  # after a failure; doubles with each further one
    longest_wait: float = 120.0  # even if the server asks for more
    unknown_size_limit: int = 20_000_000_000  # bytes of a download whose size is not catalogued


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
    policy: RetryPolicy | None = None,
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
    sources = dict.fromkeys([base, *urls] if mirror else urls)
    failures = []
    if here := _in_place(target, accepted):
        return here
    with _lock(target, name) if sources else nullcontext():
        if here := _in_place(target, accepted):
            return here
        for source in sources:
            download = _Download(name, source, target, accepted, size, policy or RetryPolicy())
            try:
                digest = download.complete()
            except _SourceError as error:
                failures.append(_without_passwords(f"{source}: {error}"))
                log.info("%s: %s", name, failures[-1])
                continue
            with _place_errors(target):
                os.replace(download.part, target)
            shown, size = _without_passwords(source), target.stat().st_size
            return Fetched(source=shown, sha256=digest, size=size)
    wrong = f", {target} has another sha256" if target.exists() else ""
    reasons = "; ".join(failures) or "no mirror is given and no address is known"
    raise UserError(
        f"{name} cannot be fetched{wrong}: {reasons}; "
        f"get the file with sha256 {accepted[0]} by hand and save it as {target}{hint}"
    )


@dataclass
class _Download:
    """Makes ``part`` the whole file from one source, whatever is there of it already."""

    name: str
    source: str
    target: Path
    accepted: Sequence[str]
    size: int
    policy: RetryPolicy
    validator: str = ""  # ETag or date of the last whole answer, for If-Range

    @property
    def part(self) -> Path:
        return self.target.with_name(f".{self.target.name}.part")

    @property
    def have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def complete(self) -> str:
        """Return the whole file's sha256, which is an accepted one."""
        local, attempts, failures, farthest = _local_path(self.source), 0, 0, self.have
        first, longest = self.policy.first_wait, self.policy.longest_wait
        while True:
            attempts += 1
            try:
                with _network_errors(self.policy.timeout):
                    return self._attempt() if local is None else self._copy(local)
            except _SourceError as error:
                if error.again is None:
                    raise
                failures = 0 if self.have >= farthest + _LEAST else failures + 1
                farthest = max(farthest, self.have)
                if failures >= self.policy.attempts:
                    raise _SourceError(f"{error} (attempts: {attempts})") from None
                wait = min(max(first * 2.0 ** (failures - 1), error.again), longest)
                shown = _without_passwords(f"{self.name}: {self.source}: {error}")
                log.info("%s; attempt %d in %.0f s", shown, attempts + 1, wait)
                time.sleep(wait + random.uniform(0, first))

    def _copy(self, source: Path) -> str:
        if not source.is_file():  # a pipe could block for ever
            raise _SourceError("no such file")
        digest = self._accepted(source)  # first: a damaged mirror must not cost what is here
        with _place_errors(self.part, source.stat().st_size):
            shutil.copyfile(source, self.part)
        return digest

    def _attempt(self) -> str:
        """Return the sha256 of the whole file after one request for what is missing."""
        headers, have = {"Accept-Encoding": "identity"}, self.have
        if have:
            headers |= {"Range": f"bytes={have}-"}
            headers |= {"If-Range": self.validator} if self.validator else {}
        timeout = self.policy.timeout
        with requests.get(self.source, headers=headers, timeout=timeout, stream=True) as response:
            status, kind = response.status_code, response.headers.get("Content-Type", "")
            if status in (408, 429) or status >= 500:
                raise _SourceError(f"{status} {response.reason}", _retry_after(response))
            if status != 200 and not (have and status in (206, 416)):
                raise _SourceError(f"{status} {response.reason}")
            if have and status == 200 and kind.startswith("text/html"):
                # Most likely a proxy's or log-in page, which must not cost what is here.
                raise _SourceError("sent text/html, not the rest of the file", again=0)
            if status != 416:  # nothing is missing, if the sha256 is right
                self._receive(response, have if status == 206 else 0)
        try:
            return self._accepted(self.part, kind)
        except _SourceError as error:
            self.part.unlink()
            if status == 200:
                raise
            raise _SourceError(f"{error}, in pieces that may not fit together", again=0) from None

    def _receive(self, response: requests.Response, have: int) -> None:
        """Write the body of a response to ``part``, from byte ``have`` on."""
        headers, span = response.headers, response.headers.get("Content-Range", "")
        if have and not span.startswith(f"bytes {have}-"):
            self.part.unlink()
            raise _SourceError(f"sent {span or 'some part'}, not the rest of the file", again=0)
        if not have:
            etag = headers.get("ETag", "W/")  # a weak one is not allowed in If-Range
            self.validator = headers.get("Last-Modified", "") if etag.startswith("W/") else etag
        length = headers.get("Content-Length", "")
        # Next to a Transfer-Encoding, a length means nothing (RFC 9112, section 6.3).
        known = length.isdecimal() and "Transfer-Encoding" not in headers
        total = have + int(length) if known else None
        # Twice: a repackaged file, which may be accepted too, can be larger than the official one.
        limit = 2 * self.size or self.policy.unknown_size_limit
        advice = "" if self.size else "; name the file's `bytes` in the catalogue"
        limited = f"the limit is {limit}{advice}"
        if (total or 0) > limit:
            raise _SourceError(f"announces {total} bytes, {limited}")
        continued = f", continued at byte {have}" if have else ""
        source = _without_passwords(self.source)
        log.info("%s: %s bytes from %s%s", self.name, total or "unknown", source, continued)
        start, before, seconds = time.monotonic(), have, self.policy.timeout
        response.raw.enforce_content_length = False  # reported below, in words
        # Unbuffered: what has arrived survives a kill, and closing has nothing left to write.
        with (
            _place_errors(self.part, total or self.size),
            self.part.open("ab" if have else "wb", 0) as stream,
            progress(total=total, done=have, unit="byte", log=log) as bar,
        ):
            # `read` would wait for a whole chunk, and lose it if the connection breaks. The bytes
            # stay as they were sent, whatever Content-Encoding a server gives to a .gz file.
            while chunk := memoryview(response.raw.read1(_CHUNK, decode_content=False)):
                have += len(chunk)
                bar.update(len(chunk))
                while chunk:
                    chunk = chunk[stream.write(chunk) :]
                if have > limit:
                    self.part.unlink()
                    raise _SourceError(f"does not stop after {have} bytes, {limited}")
                if (now := time.monotonic()) - start >= seconds:
                    if have - before < _LEAST:
                        raise _SourceError(f"only {have - before} bytes within {seconds:g} s", 0)
                    start, before = now, have
            os.fsync(stream.fileno())
        if have < (total or 0):
            raise _SourceError(f"ended after {have} of {total} bytes", again=0)

    def _accepted(self, path: Path, kind: str = "") -> str:
        digest, size = files.sha256(path), path.stat().st_size
        if digest not in self.accepted:
            instead = f" instead of {self.size}" if self.size not in (0, size) else ""
            what = "sent a web page" if kind.startswith("text/html") else "has another file"
            raise _SourceError(f"{what}, of {size} bytes{instead} and sha256 {digest}")
        return digest


@contextmanager
def _network_errors(timeout: float) -> Iterator[None]:
    """Sort errors of the network into those that may pass and those that will not."""
    try:
        yield
    except (requests.Timeout, urllib3.exceptions.TimeoutError):
        raise _SourceError(f"no answer within {timeout:g} s", again=0) from None
    except (requests.ConnectionError, urllib3.exceptions.HTTPError) as error:
        root: BaseException = error
        while (cause := root.__cause__ or root.__context__) is not None:
            root = cause
        words = getattr(root, "strerror", None) or one_line(root) or type(root).__name__
        untrusted = isinstance(root, ssl.SSLCertVerificationError)
        raise _SourceError(words, again=None if untrusted else 0) from None
    except OSError as error:  # no valid address, endless redirects, missing certificates
        raise _SourceError(error.strerror or one_line(error)) from None


def _retry_after(response: requests.Response) -> float:
    try:
        return urllib3.Retry().parse_retry_after(response.headers.get("Retry-After", "0"))
    except urllib3.exceptions.InvalidHeader:
        return 0.0


def _in_place(target: Path, accepted: Sequence[str]) -> Fetched | None:
    if not target.is_file():
        return None
    with _place_errors(target, action="read"):
        digest, size = files.sha256(target), target.stat().st_size
    return Fetched(source=None, sha256=digest, size=size) if digest in accepted else None


def _local_path(source: str) -> Path | None:
    """Return the path of a source without scheme, or with file:// and no other host."""
    local = re.fullmatch(r"(?:file://(?:localhost)?)(/.*)", source, re.DOTALL | re.IGNORECASE)
    return Path(unquote(local[1])) if local else None if "://" in source else Path(source)


def _without_passwords(text: str) -> str:
    """Return a text without the passwords in its addresses.

    >>> _without_passwords("https://me:secret@example.org/images.gz")
    'https://example.org/images.gz'
    """
    return re.sub(r"(?<=://)[^/?#\s]*@", "", text)


@contextmanager
def _place_errors(
    path: Path, size: int = 0, action: str = "write", remedy: str = ""
) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = f"; the file needs {size} bytes there" if size else remedy
        raise UserError(f"cannot {action} {path}: {error.strerror or error}{remedy}") from error


@contextmanager
def _lock(target: Path, name: str) -> Iterator[None]:
    """Hold the lock beside the target; the system frees it whatever becomes of the process."""
    place = target.with_name(f".{target.name}.lock")
    lock = filelock.FileLock(place, mode=0o666)  # for all users
    with _place_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    # as when another user's lock is only his to write
    remedy = "; if nobody is fetching the file, delete this lock, or have its owner do so"
    with _place_errors(place, action="lock", remedy=remedy):
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            log.info("%s: another process is fetching it; waiting", name)
            lock.acquire()
    try:
        yield
    finally:
        lock.release()
