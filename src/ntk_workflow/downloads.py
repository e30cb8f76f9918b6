"""Download one file, from a mirror or the first address that has it.

A download survives broken connections and kills: a partial file stays beside the target as
``.{name}.part``; the next attempt, run or source continues it, and the sha256 decides whether the
pieces fit together. (pooch cannot resume, takes one checksum a file where Fashion-MNIST has two,
and hashes all gigabytes once more.)
"""

from __future__ import annotations

import logging
import os
import random
import re
import shutil
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import filelock
import requests
import urllib3

from ntk_conditioning import files
from ntk_conditioning.errors import UserError, one_line

log = logging.getLogger(__name__)

_CHUNK = 1 << 20
# Fewer bytes in an attempt, or in the time of a timeout, count as nothing: otherwise a server that
# drips would be waited for without end.
_LEAST = 1024


class NotAvailableError(UserError):
    """No source has the file."""


class PlaceError(UserError):
    """The file cannot be written, or read, where it is to be."""


class _RefusedError(Exception):
    """This source does not have the file; asking again will not help."""


class _AgainError(Exception):
    """This source may have the file if asked again, after so many seconds."""

    def __init__(self, message: str, *, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How long a source is tried; times are in seconds."""

    attempts: int = 6  # in a row without progress
    timeout: float = 30.0  # of a server's silence
    first_wait: float = 1.0  # after a failure; doubles with each further one
    longest_wait: float = 120.0  # even if the server asks for more
    report: float = 60.0  # between progress lines in the log
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
    size: int | None = None,
    policy: RetryPolicy | None = None,
    hint: str = "",
) -> Fetched:
    """Return what is at ``target``, after fetching it from the first source that has it.

    Concurrent calls for one target, also in other processes, share one download. An existing file
    is replaced only by one with an accepted checksum.

    Args:
        name: the file's name in the catalogue, below a mirror and in messages.
        sha256: accepted checksums, the official file's first.
        mirror: folder, file:// or http(s) base address that is tried first; "" for none.
        urls: addresses of the file itself, tried in this order.
        size: bytes of the official file, if known; more than twice as many are refused.
        hint: a further remedy, added to the message if no source has the file.

    Raises:
        NotAvailableError: if no source has the file.
        PlaceError: if the file cannot be written.
    """
    policy = policy or RetryPolicy()
    accepted = [digest.lower() for digest in sha256]
    sources = list(dict.fromkeys([*_in_mirror(mirror, name), *urls]))
    part = target.with_name(f".{target.name}.part")
    failures = []
    if (here := _in_place(target, accepted)) is not None:
        return here
    if sources:
        with _lock(target, name):
            if (here := _in_place(target, accepted)) is not None:
                return here
            for source in sources:
                download = ResumingDownloader(name, source, part, accepted, size, policy)
                try:
                    digest = download.complete()
                except _RefusedError as refusal:
                    failures.append(f"{_without_passwords(source)}: {refusal}")
                    log.info("%s: %s", name, failures[-1])
                    continue
                with _place_errors(target, size):
                    os.replace(part, target)
                shown, size = _without_passwords(source), target.stat().st_size
                return Fetched(source=shown, sha256=digest, size=size)
    wrong = f", {target} has another sha256" if target.exists() else ""
    raise NotAvailableError(
        f"{name} cannot be fetched{wrong}: "
        f"{'; '.join(failures) or 'no mirror is given and no address is known'}; "
        f"get the file with sha256 {accepted[0]} by hand and save it as {target}{hint}"
    )


@dataclass
class ResumingDownloader:
    """Completes ``part`` from one source, whatever is there of it already."""

    name: str
    source: str
    part: Path
    accepted: Sequence[str]
    size: int | None
    policy: RetryPolicy
    validator: str = field(default="", init=False)  # ETag or date of the last answer, for If-Range
    total: int | None = field(default=None, init=False)  # bytes, as the last answer said
    page: bool = field(default=False, init=False)  # whether it was HTML

    @property
    def have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    @property
    def limit(self) -> int:
        # Twice: a repackaged file, which may be accepted too, can be larger than the official one.
        return 2 * self.size if self.size else self.policy.unknown_size_limit

    def complete(self) -> str:
        """Make ``part`` the whole file and return its sha256, which is an accepted one."""
        local = _local_path(self.source)
        return self._download() if local is None else self._copy(local)

    def _copy(self, source: Path) -> str:
        if not source.is_file():  # a pipe could block for ever
            raise _RefusedError("no such file")
        with _network_errors(self.policy):
            # Before anything is written: a damaged mirror must not cost what was downloaded.
            digest = self._accept(source)
        log.info("%s: %d bytes from %s", self.name, source.stat().st_size, source)
        with _place_errors(self.part, source.stat().st_size):
            shutil.copyfile(source, self.part)
        return digest

    def _download(self) -> str:
        attempts, failures, farthest = 0, 0, self.have
        with requests.Session() as session:
            while True:
                attempts += 1
                try:
                    with _network_errors(self.policy):
                        return self._attempt(session)
                except _AgainError as failure:
                    failures = 0 if self.have >= farthest + _LEAST else failures + 1
                    farthest = max(farthest, self.have)
                    if failures >= self.policy.attempts:
                        raise _RefusedError(f"{failure} (attempts: {attempts})") from None
                    self._pause(failure, failures)

    def _pause(self, failure: _AgainError, failures: int) -> None:
        first, longest = self.policy.first_wait, self.policy.longest_wait
        wait = max(first * 2.0 ** (failures - 1), failure.after)
        wait = min(wait, longest) + random.uniform(0, first)
        log.info(
            "%s: %s: %s; attempt %d of %d in %.0f s",
            *(self.name, _without_passwords(self.source), failure),
            *(failures + 1, self.policy.attempts, wait),
        )
        time.sleep(wait)

    def _attempt(self, session: requests.Session) -> str:
        """Return the sha256 of the whole file after one request for what is missing."""
        headers = {"Accept-Encoding": "identity"}
        if have := self.have:
            headers["Range"] = f"bytes={have}-"
            if self.validator:
                headers["If-Range"] = self.validator
        timeout = self.policy.timeout
        with session.get(self.source, headers=headers, timeout=timeout, stream=True) as response:
            status = response.status_code
            if status in (408, 429) or status >= 500:
                after = 0.0
                with suppress(urllib3.exceptions.InvalidHeader):
                    header = response.headers.get("Retry-After", "0")
                    after = urllib3.Retry().parse_retry_after(header)
                raise _AgainError(f"{status} {response.reason}", after=after)
            resumed = bool(have) and status in (206, 416)
            if status == 200:
                self._begin(response)
            elif not resumed:
                raise _RefusedError(f"{status} {response.reason}")
            if status == 206:
                self._continue(response)
            if status != 416:  # nothing is missing, if the sha256 is right
                self._receive(response)
        try:
            return self._accept(self.part)
        except _RefusedError as refusal:
            self.part.unlink()
            if not resumed:
                raise
            raise _AgainError(f"{refusal}, in pieces that may not fit together") from None

    def _begin(self, response: requests.Response) -> None:
        """Empty ``part`` for the whole file that a response brings."""
        headers = response.headers
        length = headers.get("Content-Length", "")
        # Next to a Transfer-Encoding, a length means nothing (RFC 9112, section 6.3).
        known = length.isdecimal() and "Transfer-Encoding" not in headers
        self.total = int(length) if known else None
        self.page = headers.get("Content-Type", "").startswith("text/html")
        if self.page and self.have:
            # Most likely a proxy's or log-in page, which must not cost what is here.
            raise _AgainError("sent text/html, not the rest of the file")
        if (self.total or 0) > self.limit:
            raise self._too_large("announces", self.total)
        etag = headers.get("ETag", "W/")  # a weak one is not allowed in If-Range
        self.validator = headers.get("Last-Modified", "") if etag.startswith("W/") else etag
        with _place_errors(self.part, self.total or self.size):
            self.part.write_bytes(b"")

    def _continue(self, response: requests.Response) -> None:
        span = response.headers.get("Content-Range", "")
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", span.strip())
        if match is None or int(match[1]) != self.have:
            self.part.unlink()
            raise _AgainError(f"sent {span or 'an unknown part'}, not the rest of the file")
        self.total = None if match[2] == "*" else int(match[2])

    def _receive(self, response: requests.Response) -> None:
        have, total, seconds = self.have, self.total, self.policy.timeout
        log.info(
            *("%s: %s bytes from %s%s", self.name, "unknown" if total is None else total),
            *(_without_passwords(self.source), f", continued at byte {have}" if have else ""),
        )
        start = window = report = time.monotonic()
        begun = before = have
        response.raw.enforce_content_length = False  # reported below, in words
        # Unbuffered: what has arrived survives a kill, and closing has nothing left to write.
        with _place_errors(self.part, total or self.size), self.part.open("ab", 0) as stream:
            # `read` would wait for a whole chunk, and lose it if the connection breaks. The bytes
            # stay as they were sent, whatever Content-Encoding a server gives to a .gz file.
            while chunk := memoryview(response.raw.read1(_CHUNK, decode_content=False)):
                have += len(chunk)
                while chunk:
                    chunk = chunk[stream.write(chunk) :]
                if have > self.limit:
                    self.part.unlink()
                    raise self._too_large("does not stop after", have)
                now = time.monotonic()
                if now - window >= seconds:
                    if have - before < _LEAST:
                        raise _AgainError(f"only {have - before} bytes within {seconds:g} s")
                    window, before = now, have
                if now - report >= self.policy.report:
                    report, rate = now, (have - begun) / (now - start) / 1e6
                    log.info("%s: %d of %s bytes, %.2f MB/s", self.name, have, total or "?", rate)
            os.fsync(stream.fileno())
        if total is not None and have < total:
            raise _AgainError(f"ended after {have} of {total} bytes")

    def _too_large(self, what: str, size: int | None) -> _RefusedError:
        remedy = "" if self.size else "; name the file's `bytes` in the catalogue"
        return _RefusedError(f"{what} {size} bytes, the limit is {self.limit}{remedy}")

    def _accept(self, path: Path) -> str:
        if (digest := files.sha256(path)) in self.accepted:
            return digest
        size = path.stat().st_size
        instead = f" instead of {self.size}" if self.size not in (None, size) else ""
        other = "sent a web page" if self.page else "has another file"
        raise _RefusedError(f"{other}, of {size} bytes{instead} and sha256 {digest}")


@contextmanager
def _network_errors(policy: RetryPolicy) -> Iterator[None]:
    """Sort errors of the network into those that may pass and those that will not."""
    try:
        yield
    except (requests.Timeout, urllib3.exceptions.TimeoutError):
        raise _AgainError(f"no answer within {policy.timeout:g} s") from None
    except (requests.ConnectionError, urllib3.exceptions.HTTPError) as error:
        root: BaseException = error
        while (cause := root.__cause__ or root.__context__) is not None:
            root = cause
        words = getattr(root, "strerror", None) or one_line(root) or type(root).__name__
        final = isinstance(root, ssl.SSLCertVerificationError)
        raise (_RefusedError if final else _AgainError)(words) from None
    except OSError as error:  # no valid address, endless redirects, missing certificates
        raise _RefusedError(_without_passwords(error.strerror or one_line(error))) from None


def _in_place(target: Path, accepted: Sequence[str]) -> Fetched | None:
    if not target.is_file():
        return None
    with _place_errors(target, action="read"):
        digest = files.sha256(target)
    size = target.stat().st_size
    return Fetched(source=None, sha256=digest, size=size) if digest in accepted else None


def _in_mirror(mirror: str, name: str) -> list[str]:
    if not mirror:
        return []
    folder = _local_path(mirror)
    return [f"{mirror.rstrip('/')}/{quote(name)}" if folder is None else str(folder / name)]


def _local_path(source: str) -> Path | None:
    if "://" not in source:
        return Path(source)
    local = re.fullmatch(r"file://(?:localhost)?(/.*)", source, re.DOTALL | re.IGNORECASE)
    return Path(url2pathname(urlsplit(local[1]).path)) if local else None


def _without_passwords(text: str) -> str:
    """Return a text without the passwords in its addresses.

    >>> _without_passwords("https://me:secret@example.org/images.gz")
    'https://example.org/images.gz'
    """
    return re.sub(r"(?<=://)[^/?#\s]*@", "", text)


@contextmanager
def _place_errors(path: Path, size: int | None = None, action: str = "write") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        needed = f"; the file needs {size} bytes there" if size else ""
        raise PlaceError(f"cannot {action} {path}: {error.strerror or error}{needed}") from error


@contextmanager
def _lock(target: Path, name: str) -> Iterator[None]:
    """Hold the lock beside the target; the system frees it whatever becomes of the process."""
    path = target.with_name(f".{target.name}.lock")
    lock = filelock.FileLock(path, mode=0o666)  # for the other users of a shared folder, too
    with _place_errors(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            log.info("%s: another process is fetching it; waiting", name)
            lock.acquire()
    try:
        yield
    finally:
        lock.release()
