"""One file of a dataset brought into place: resumed, retried, checked, and whole or not there.

What has come is kept beside the target in ``.{name}.part``, with a note of where it came from, and
is continued by the next attempt, the next run or the next source. Only a file with an accepted
sha256 ever takes the target's name, so whatever a server does ends in the right bytes or in one
line that says what each address said.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import os
import re
import ssl
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import filelock
import requests
import tenacity
import urllib3
from tqdm import tqdm

from ntk_conditioning import files
from ntk_conditioning.errors import UserError, one_line

log = logging.getLogger(__name__)

_CHUNK = 1 << 20
_CONNECT = 20.0  # seconds; a machine that is there answers sooner than it sends
# Bytes that must come within each time-out and each attempt. Less counts as nothing: else a server
# that drips would be waited for, or tried again, for ever.
_LEAST = 1024


class NotAvailableError(UserError):
    """No source has the file."""


class MirrorError(UserError):
    """The mirror is not a place that files are fetched from."""


class PlaceError(UserError):
    """The file cannot be written where it is to be."""


class _RefusedError(Exception):
    """This source does not have the file; asking again will not help."""


class _AgainError(Exception):
    """This source did not give the file, and may if asked again."""

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a source is believed in, in seconds.

    Attributes:
        attempts: how often in a row a source may bring nothing new before it is given up.
        timeout: how long a server may be silent.
        first_wait: the pause after a first failure; it doubles with every further one.
        longest_wait: the longest pause, also when the server asks for a longer one.
        report: how often the log tells of progress, or of waiting for another process.
    """

    attempts: int = 6
    timeout: float = 60.0
    first_wait: float = 1.0
    longest_wait: float = 120.0
    report: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A file that is in place and right.

    Attributes:
        source: the address that completed it, or None if it was in place already.
        sha256: the one of the accepted checksums that it has.
        size: its bytes.
    """

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
    patience: Patience = Patience(),
) -> Fetched:
    """Return what ``target`` is, after fetching it from the first source that has it.

    Concurrent calls for one target, also in other processes, wait for each other. A wrong file at
    ``target`` is replaced only by a right one.

    Args:
        name: its name in the catalogue, below a mirror and in messages.
        sha256: accepted checksums, the official file's first.
        mirror: folder, file:// or http(s) base address that is asked first; "" for none.
        urls: addresses of the file itself, asked in this order.
        size: bytes of the official file, if known.

    Raises:
        MirrorError: if ``mirror`` is no such place.
        NotAvailableError: if no source has the file.
        PlaceError: if the file cannot be written.
    """
    accepted = [digest.lower() for digest in sha256]
    if (here := _in_place(target, accepted)) is not None:
        return here
    sources = list(dict.fromkeys([*_in_mirror(mirror, name), *urls]))
    said = []
    if sources:
        with _alone(target, name=name, size=size, report=patience.report):
            if (here := _in_place(target, accepted)) is not None:
                return here
            for source in sources:
                job = _Job(target, name, source, accepted, size, patience)
                try:
                    return job.fetch()
                except _RefusedError as refusal:
                    said.append(f"{job.shown}: {refusal}")
                    if source != sources[-1]:
                        log.info("%s: %s; trying the next source", name, said[-1])
    wrong = f", {target} has another sha256" if target.exists() else ""
    raise NotAvailableError(
        f"{name} cannot be fetched{wrong}: "
        f"{'; '.join(said) or 'no mirror is given and no address is known'}; "
        f"get the file with sha256 {accepted[0]} by hand and save it as {target}"
    )


def _in_place(target: Path, accepted: Sequence[str]) -> Fetched | None:
    if not target.is_file():
        return None
    try:
        digest = files.sha256(target)
        size = target.stat().st_size
    except OSError as error:
        raise PlaceError(f"cannot read {target}: {error.strerror}") from None
    return Fetched(source=None, sha256=digest, size=size) if digest in accepted else None


def _in_mirror(mirror: str, name: str) -> list[str]:
    """Return the place of a file in a mirror: a path, or an address; or none."""
    if not mirror:
        return []
    scheme, is_address, _ = mirror.partition("://")
    if not is_address:
        return [str(Path(mirror) / name)]
    if scheme in ("http", "https"):
        return [f"{mirror.rstrip('/')}/{quote(name)}"]
    folder = _local(mirror)
    if folder is None:
        raise MirrorError(f"mirror {mirror} is neither a folder nor a file:// or http(s) address")
    return [str(folder / name)]


def _local(source: str) -> Path | None:
    """Return the path that a source names, unless it is an address elsewhere."""
    if "://" not in source:
        return Path(source)
    local = re.fullmatch(r"file://(?:localhost)?(/.*)", source, re.DOTALL | re.IGNORECASE)
    return Path(url2pathname(urlsplit(local[1]).path)) if local else None


@contextmanager
def _alone(target: Path, *, name: str, size: int | None, report: float) -> Iterator[None]:
    """Hold the lock beside the target; the system frees it whatever becomes of the process."""
    lock = filelock.FileLock(_beside(target, "lock"))
    with _naming(target, size):
        target.parent.mkdir(parents=True, exist_ok=True)
        timeout = 0.0
        while not lock.is_locked:
            try:
                lock.acquire(timeout=timeout)
            except filelock.Timeout:
                log.info("%s: another process is fetching it; waiting", name)
                timeout = report
    try:
        yield
    finally:
        lock.release()


def _beside(target: Path, suffix: str) -> Path:
    return target.with_name(f".{target.name}.{suffix}")


@contextmanager
def _naming(path: Path, needed: int | None) -> Iterator[None]:
    """Tell the system's errors in writing as a `PlaceError`."""
    try:
        yield
    except OSError as error:
        room = f"; the file needs {needed} bytes there" if needed else ""
        raise PlaceError(f"cannot write {path}: {error.strerror or error}{room}") from error


@dataclass(frozen=True)
class _Note:
    """Where the beginning of a file came from, and what the server told of the whole."""

    source: str
    etag: str | None = None
    modified: str | None = None
    total: int | None = None

    @classmethod
    def read(cls, path: Path) -> _Note | None:
        """Return the note, or None if there is no sound one."""
        with suppress(OSError, ValueError, TypeError):
            note = cls(**json.loads(path.read_text(encoding="utf-8")))
            texts = (note.source, note.etag or "", note.modified or "")
            if all(isinstance(text, str) for text in texts) and isinstance(note.total or 0, int):
                return note
        return None

    @property
    def validator(self) -> str | None:
        """What If-Range takes: a strong ETag, else the date."""
        strong = self.etag is not None and not self.etag.startswith("W/")
        return self.etag if strong else self.modified

    def agrees(self, other: _Note) -> bool:
        """Return whether nothing that both tell speaks for two different files."""
        pairs: list[tuple[object, object]] = [(self.total, other.total)]
        if self.source == other.source:  # a copy elsewhere has its own ETag and date
            pairs += [(self.etag, other.etag), (self.modified, other.modified)]
        return all(None in pair or pair[0] == pair[1] for pair in pairs)


class _Partial:
    """A file that is growing on the disk, and the sha256 of what it has."""

    def __init__(self, path: Path, *, needed: int | None) -> None:
        self.path = path
        self.note_path = path.with_name(f"{path.name}.json")
        self.needed = needed
        self.size = 0
        self.resumed = False
        self._digest = hashlib.sha256()
        self.note = _Note.read(self.note_path)
        if self.note is None or not path.is_file():
            return
        self.needed = self.note.total or needed
        with _naming(path, needed), path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                self._digest.update(chunk)
                self.size += len(chunk)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def restart(self, note: _Note | None) -> None:
        """Empty the file. A note is on the disk before the first byte that it is about."""
        self.size, self.resumed, self.note = 0, False, note
        self._digest = hashlib.sha256()
        with _naming(self.path, self.needed):
            self.path.write_bytes(b"")
            if note is not None:
                self.needed = note.total or self.needed
                self.note_path.write_text(json.dumps(asdict(note)), encoding="utf-8")

    def append(self, chunks: Iterable[bytes]) -> None:
        # Unbuffered: what has come survives a kill, and closing has nothing left to write.
        with self._opened() as stream:
            for chunk in chunks:
                rest = memoryview(chunk)
                while rest:
                    with _naming(self.path, self.needed):
                        rest = rest[stream.write(rest) :]
                self._digest.update(chunk)
                self.size += len(chunk)

    def install(self, target: Path) -> None:
        with self._opened() as stream, _naming(target, self.needed):
            os.fsync(stream.fileno())
            os.replace(self.path, target)
            self.note_path.unlink(missing_ok=True)

    def discard(self) -> None:
        self.size, self.resumed, self.note = 0, False, None
        self._digest = hashlib.sha256()
        with _naming(self.path, self.needed):
            self.path.unlink(missing_ok=True)
            self.note_path.unlink(missing_ok=True)

    def _opened(self) -> Any:
        with _naming(self.path, self.needed):
            return self.path.open("ab", buffering=0)


@dataclass
class _Job:
    """The fetching of one file from one source."""

    target: Path
    name: str
    source: str
    accepted: Sequence[str]
    size: int | None
    patience: Patience
    farthest: int = field(default=0, init=False)
    tried: int = field(default=0, init=False)
    afresh: bool = field(default=False, init=False)
    kind: str = field(default="", init=False)
    endless: bool = field(default=False, init=False)

    @property
    def shown(self) -> str:
        return _hidden(self.source)

    @property
    def _connect(self) -> float:
        return min(_CONNECT, self.patience.timeout)

    def fetch(self) -> Fetched:
        local = _local(self.source)
        if local is not None:
            return self._copy(local)
        partial = _Partial(_beside(self.target, "part"), needed=self.size)
        self.farthest = partial.size
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_AgainError),
            stop=tenacity.stop_after_attempt(self.patience.attempts),
            wait=self._wait,
            after=lambda state: self._count(state, partial),
            before_sleep=self._report,
            reraise=True,
        )
        try:
            with requests.Session() as session:
                retrying(self._attempt, session, partial)
        except _AgainError as error:
            raise _RefusedError(f"{error} (attempts: {self.tried})") from None
        return self._install(partial)

    def _copy(self, source: Path) -> Fetched:
        # Apart from what has come over the network, which a damaged mirror must not cost. The
        # name is fixed, so that a kill leaves at most one behind.
        copy = _Partial(_beside(self.target, "copy"), needed=self.size)
        try:
            if not source.is_file():  # nor a pipe, which could be waited for
                raise _RefusedError("no such file")
            with source.open("rb") as stream:
                copy.needed = os.fstat(stream.fileno()).st_size
                copy.restart(None)
                with self._progress(0, copy.needed) as progress:
                    copy.append(progress.watch(iter(lambda: stream.read(_CHUNK), b"")))
            if copy.sha256 not in self.accepted:
                raise _RefusedError(self._other(copy))
        except OSError as error:
            copy.discard()
            raise _RefusedError(error.strerror or one_line(error)) from None
        except (_RefusedError, PlaceError):
            copy.discard()
            raise
        return self._install(copy)

    def _install(self, partial: _Partial) -> Fetched:
        partial.install(self.target)
        return Fetched(source=self.shown, sha256=partial.sha256, size=partial.size)

    def _attempt(self, session: requests.Session, partial: _Partial) -> None:
        """Return when the partial file is the right one."""
        self.tried += 1
        if partial.sha256 in self.accepted:
            return
        try:
            with self._telling():
                if not self._request(session, partial):
                    log.info("%s: what is here cannot be continued, starting over", self.name)
                    partial.discard()
                    self._request(session, partial)
        except _AgainError:
            if partial.sha256 not in self.accepted:
                raise
            return  # the server told of more bytes than there are
        if partial.sha256 in self.accepted:
            return
        other, resumed = self._other(partial), partial.resumed
        partial.discard()
        if not resumed or self.afresh:
            raise _RefusedError(other)
        # The pieces may be of two files; whole, it may be right. Once, or it could go on for ever.
        log.info("%s: %s after resuming, starting over", self.name, other)
        self.afresh, self.endless, self.farthest = True, False, 0
        self._attempt(session, partial)

    def _request(self, session: requests.Session, partial: _Partial) -> bool:
        """Return False if the server cannot continue what is here; else add what it sends."""
        offset = partial.size
        with session.get(
            self.source,
            headers={"Accept-Encoding": "identity"} | self._range(partial),
            timeout=(self._connect, self.patience.timeout),
            stream=True,
        ) as response:
            status = response.status_code
            if status in (408, 429) or status >= 500:
                raise _AgainError(
                    _status(response),
                    retry_after=_seconds(response.headers.get("Retry-After", "")),
                )
            if offset and status == 416:
                return False
            if offset and status == 206:
                note = self._continued(response, partial)
                if note is None:
                    return False
                partial.note, partial.resumed = note, True
            elif status == 200:
                self._restart(response, partial)
            else:
                raise _RefusedError(_status(response))
            self._receive(response, partial)
        return True

    def _range(self, partial: _Partial) -> dict[str, str]:
        if not partial.size or partial.note is None:
            return {}
        headers = {"Range": f"bytes={partial.size}-"}
        if partial.note.source == self.shown and partial.note.validator:
            headers["If-Range"] = partial.note.validator
        return headers

    def _continued(self, response: requests.Response, partial: _Partial) -> _Note | None:
        """Return the note of a 206 that continues the partial file, or None."""
        told = re.fullmatch(
            r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip()
        )
        if partial.note is None or told is None or int(told[1]) != partial.size:
            return None
        total = None if told[2] == "*" else int(told[2])
        if not partial.note.agrees(self._note(response, total)):
            return None
        elsewhere = partial.note.source != self.shown
        if elsewhere and None in (total, partial.note.total):
            return None  # nothing says that the two are the same file
        return replace(partial.note, total=partial.note.total or total)

    def _restart(self, response: requests.Response, partial: _Partial) -> None:
        self.kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        length = response.headers.get("Content-Length", "")
        # Beside a Transfer-Encoding it means nothing (RFC 9112, section 6.3).
        told = length.isdecimal() and "Transfer-Encoding" not in response.headers
        total = int(length) if told else None
        if total is not None and self.size is not None and total > 2 * self.size:
            raise _RefusedError(f"tells of {total} bytes, the file has {self.size}")
        if partial.size and self.kind == "text/html" and total != partial.needed:
            # A proxy's or a log-in page, most likely: no reason to throw away what is here.
            raise _AgainError(f"sent {self.kind}, not the rest of the file")
        partial.restart(self._note(response, total))

    def _note(self, response: requests.Response, total: int | None) -> _Note:
        headers = response.headers
        return _Note(self.shown, headers.get("ETag"), headers.get("Last-Modified"), total)

    def _receive(self, response: requests.Response, partial: _Partial) -> None:
        total = partial.note.total if partial.note else None
        response.raw.enforce_content_length = False  # told below, in words
        with self._progress(partial.size, total) as progress:
            partial.append(progress.watch(self._body(response, partial, total)))
        if total is not None and partial.size < total:
            raise _AgainError(f"ended after {partial.size} of {total} bytes")

    def _body(
        self, response: requests.Response, partial: _Partial, total: int | None
    ) -> Iterator[bytes]:
        """Yield the bytes as they were sent, whatever Content-Encoding says of them."""
        most = total if total is not None or self.size is None else 2 * self.size
        since, came = time.monotonic(), 0
        # `read` would wait for a whole chunk, and lose what came of it when the connection breaks.
        while chunk := response.raw.read1(_CHUNK, decode_content=False):
            yield chunk
            if most is not None and partial.size > most:
                self.endless = True
                return
            came += len(chunk)
            if (now := time.monotonic()) - since >= self.patience.timeout:
                if came < _LEAST:
                    raise _AgainError(f"only {came} bytes within {self.patience.timeout:g} s")
                since, came = now, 0

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Sort the network's errors into those that may pass and those that will not."""
        try:
            yield
        except requests.ConnectTimeout:
            raise _AgainError(f"no connection within {self._connect:g} s") from None
        except (requests.Timeout, urllib3.exceptions.TimeoutError):
            raise _AgainError(f"no answer within {self.patience.timeout:g} s") from None
        except (
            requests.ConnectionError,
            requests.exceptions.ChunkedEncodingError,
            urllib3.exceptions.HTTPError,
        ) as error:
            root = _root(error)
            if isinstance(root, ssl.SSLCertVerificationError):
                raise _RefusedError(_words(root)) from None
            raise _AgainError(_words(root)) from None
        except requests.TooManyRedirects as error:
            if error.response is not None:
                error.response.close()  # which nobody else would
            raise _RefusedError("redirects without end") from None
        except OSError as error:  # an address that is none, certificates that are not there
            raise _RefusedError(_hidden(one_line(error))) from None

    def _other(self, partial: _Partial) -> str:
        """Return what came instead of the file."""
        if self.endless:
            return f"does not stop after {partial.size} bytes"
        if self.kind == "text/html":
            return f"sent {self.kind} of {partial.size} bytes, not the file"
        told = f" instead of {self.size}" if self.size not in (None, partial.size) else ""
        return f"has another file, of {partial.size} bytes{told} and sha256 {partial.sha256}"

    def _count(self, state: tenacity.RetryCallState, partial: _Partial) -> None:
        """Begin to count anew when the attempt has brought the file further than any before."""
        if partial.size >= self.farthest + _LEAST:
            self.farthest = partial.size
            state.attempt_number = 0

    def _wait(self, state: tenacity.RetryCallState) -> float:
        first, longest = self.patience.first_wait, self.patience.longest_wait
        doubling = tenacity.wait_exponential(multiplier=first, max=longest)
        pause = (doubling + tenacity.wait_random(0, first))(state)
        asked = getattr(_failure(state), "retry_after", 0.0)
        return max(pause, min(asked, longest))

    def _report(self, state: tenacity.RetryCallState) -> None:
        log.info(
            "%s: %s: %s; attempt %d of %d in %.0f s",
            *(self.name, self.shown, _failure(state)),
            *(state.attempt_number + 1, self.patience.attempts, state.upcoming_sleep),
        )

    def _progress(self, done: int, total: int | None) -> _Progress:
        log.info(
            "%s: %s from %s%s",
            self.name,
            f"{total} bytes" if total is not None else "unknown size",
            self.shown,
            f", continued at byte {done}" if done else "",
        )
        return _Progress(self.name, done, total, report=self.patience.report)


class _Progress:
    """A bar on a terminal; elsewhere a line in the log now and then."""

    def __init__(self, name: str, done: int, total: int | None, *, report: float) -> None:
        self.name, self.done, self.total, self.report = name, done, total, report
        self.start, self.came = time.monotonic(), 0
        self.bar = None
        if sys.stderr.isatty():  # a bar that is disabled would start a thread all the same
            self.bar = tqdm(
                desc=name, initial=done, total=total, unit="B", unit_scale=True, leave=False
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.close()

    def watch(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        told = self.start
        for chunk in chunks:
            yield chunk
            self.came += len(chunk)
            if self.bar is not None:
                self.bar.update(len(chunk))
            elif (now := time.monotonic()) - told >= self.report:
                told = now
                self._tell(now)

    def _tell(self, now: float) -> None:
        log.info(
            "%s: %s of %s bytes, %s/s",
            self.name,
            self.done + self.came,
            "unknown" if self.total is None else self.total,
            tqdm.format_sizeof(self.came / (now - self.start), "B"),
        )


def _failure(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def _status(response: requests.Response) -> str:
    return one_line(ValueError(f"{response.status_code} {response.reason}"))


def _seconds(retry_after: str) -> float:
    """Return the pause that a Retry-After asks for, given as seconds or as a date.

    >>> _seconds("7"), _seconds("Wed, 21 Oct 2015 07:28:00 GMT"), _seconds("soon")
    (7.0, 0.0, 0.0)
    """
    if retry_after.isdecimal():
        return float(retry_after)
    with suppress(ValueError, TypeError):
        pause = parsedate_to_datetime(retry_after) - datetime.now(UTC)
        return max(0.0, pause.total_seconds())
    return 0.0


def _hidden(text: str) -> str:
    """Return a text without the passwords in its addresses.

    >>> _hidden("https://me:secret@example.org/images.gz")
    'https://example.org/images.gz'
    """
    return re.sub(r"(?<=://)[^/?#\s]*@", "", text)


def _root(error: BaseException) -> BaseException:
    """Return the error that began a chain: the libraries wrap it in three more."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _words(error: BaseException) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "the connection ended too early"
    return getattr(error, "strerror", None) or one_line(error) or type(error).__name__
