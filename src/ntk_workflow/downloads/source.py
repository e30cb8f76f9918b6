"""One place that may have a file: asked again as long as that may help, and continued."""

from __future__ import annotations

import http.client
import logging
import os
import re
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import requests
import tenacity
import urllib3

from ntk_conditioning.errors import one_line
from ntk_workflow.downloads.partial import Note, Partial, PlaceError, beside
from ntk_workflow.downloads.progress import Progress

log = logging.getLogger(__name__)

_CHUNK = 1 << 20
_CONNECT = 20.0  # seconds; a machine that is there answers sooner than it sends
# Bytes that must come within each time-out and each attempt. Less counts as nothing: else a server
# that drips would be waited for, or tried again, for ever.
_LEAST = 1024


class RefusedError(Exception):
    """This source does not have the file; asking again will not help."""


class AgainError(Exception):
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


@dataclass
class Job:
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
        return hidden(self.source)

    @property
    def _connect(self) -> float:
        return min(_CONNECT, self.patience.timeout)

    def fetch(self) -> Fetched:
        local = local_path(self.source)
        if local is not None:
            return self._copy(local)
        partial = Partial(beside(self.target, "part"), needed=self.size)
        self.farthest = partial.size
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(AgainError),
            stop=tenacity.stop_after_attempt(self.patience.attempts),
            wait=self._wait,
            after=lambda state: self._count(state, partial),
            before_sleep=self._report,
            reraise=True,
        )
        try:
            with requests.Session() as session:
                retrying(self._attempt, session, partial)
        except AgainError as error:
            raise RefusedError(f"{error} (attempts: {self.tried})") from None
        return self._install(partial)

    def _copy(self, source: Path) -> Fetched:
        # Apart from what has come over the network, which a damaged mirror must not cost. The
        # name is fixed, so that a kill leaves at most one behind.
        copy = Partial(beside(self.target, "copy"), needed=self.size)
        try:
            if not source.is_file():  # nor a pipe, which could be waited for
                raise RefusedError("no such file")
            with source.open("rb") as stream:
                copy.needed = os.fstat(stream.fileno()).st_size
                copy.restart(None)
                with self._progress(0, copy.needed) as progress:
                    copy.append(progress.watch(iter(lambda: stream.read(_CHUNK), b"")))
            if copy.sha256 not in self.accepted:
                raise RefusedError(self._other(copy))
        except OSError as error:
            copy.discard()
            raise RefusedError(error.strerror or one_line(error)) from None
        except (RefusedError, PlaceError):
            copy.discard()
            raise
        return self._install(copy)

    def _install(self, partial: Partial) -> Fetched:
        partial.install(self.target)
        return Fetched(source=self.shown, sha256=partial.sha256, size=partial.size)

    def _attempt(self, session: requests.Session, partial: Partial) -> None:
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
        except AgainError:
            if partial.sha256 not in self.accepted:
                raise
            return  # the server told of more bytes than there are
        if partial.sha256 in self.accepted:
            return
        other, resumed = self._other(partial), partial.resumed
        partial.discard()
        if not resumed or self.afresh:
            raise RefusedError(other)
        # The pieces may be of two files; whole, it may be right. Once, or it could go on for ever.
        log.info("%s: %s after resuming, starting over", self.name, other)
        self.afresh, self.endless, self.farthest = True, False, 0
        self._attempt(session, partial)

    def _request(self, session: requests.Session, partial: Partial) -> bool:
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
                raise AgainError(
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
                raise RefusedError(_status(response))
            self._receive(response, partial)
        return True

    def _range(self, partial: Partial) -> dict[str, str]:
        if not partial.size or partial.note is None:
            return {}
        headers = {"Range": f"bytes={partial.size}-"}
        if partial.note.source == self.shown and partial.note.validator:
            headers["If-Range"] = partial.note.validator
        return headers

    def _continued(self, response: requests.Response, partial: Partial) -> Note | None:
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

    def _restart(self, response: requests.Response, partial: Partial) -> None:
        self.kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        length = response.headers.get("Content-Length", "")
        # Beside a Transfer-Encoding it means nothing (RFC 9112, section 6.3).
        told = length.isdecimal() and "Transfer-Encoding" not in response.headers
        total = int(length) if told else None
        if total is not None and self.size is not None and total > 2 * self.size:
            raise RefusedError(f"tells of {total} bytes, the file has {self.size}")
        if partial.size and self.kind == "text/html" and total != partial.needed:
            # A proxy's or a log-in page, most likely: no reason to throw away what is here.
            raise AgainError(f"sent {self.kind}, not the rest of the file")
        partial.restart(self._note(response, total))

    def _note(self, response: requests.Response, total: int | None) -> Note:
        headers = response.headers
        return Note(self.shown, headers.get("ETag"), headers.get("Last-Modified"), total)

    def _receive(self, response: requests.Response, partial: Partial) -> None:
        total = partial.note.total if partial.note else None
        response.raw.enforce_content_length = False  # told below, in words
        with self._progress(partial.size, total) as progress:
            partial.append(progress.watch(self._body(response, partial, total)))
        if total is not None and partial.size < total:
            raise AgainError(f"ended after {partial.size} of {total} bytes")

    def _body(
        self, response: requests.Response, partial: Partial, total: int | None
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
                    raise AgainError(f"only {came} bytes within {self.patience.timeout:g} s")
                since, came = now, 0

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Sort the network's errors into those that may pass and those that will not."""
        try:
            yield
        except requests.ConnectTimeout:
            raise AgainError(f"no connection within {self._connect:g} s") from None
        except (requests.Timeout, urllib3.exceptions.TimeoutError):
            raise AgainError(f"no answer within {self.patience.timeout:g} s") from None
        except (
            requests.ConnectionError,
            requests.exceptions.ChunkedEncodingError,
            urllib3.exceptions.HTTPError,
        ) as error:
            root = _root(error)
            if isinstance(root, ssl.SSLCertVerificationError):
                raise RefusedError(_words(root)) from None
            raise AgainError(_words(root)) from None
        except requests.TooManyRedirects as error:
            if error.response is not None:
                error.response.close()  # which nobody else would
            raise RefusedError("redirects without end") from None
        except OSError as error:  # an address that is none, certificates that are not there
            raise RefusedError(hidden(one_line(error))) from None

    def _other(self, partial: Partial) -> str:
        """Return what came instead of the file."""
        if self.endless:
            return f"does not stop after {partial.size} bytes"
        if self.kind == "text/html":
            return f"sent {self.kind} of {partial.size} bytes, not the file"
        told = f" instead of {self.size}" if self.size not in (None, partial.size) else ""
        return f"has another file, of {partial.size} bytes{told} and sha256 {partial.sha256}"

    def _count(self, state: tenacity.RetryCallState, partial: Partial) -> None:
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

    def _progress(self, done: int, total: int | None) -> Progress:
        log.info(
            "%s: %s from %s%s",
            self.name,
            f"{total} bytes" if total is not None else "unknown size",
            self.shown,
            f", continued at byte {done}" if done else "",
        )
        return Progress(self.name, done, total, report=self.patience.report)


def local_path(source: str) -> Path | None:
    """Return the path that a source names, unless it is an address elsewhere."""
    if "://" not in source:
        return Path(source)
    local = re.fullmatch(r"file://(?:localhost)?(/.*)", source, re.DOTALL | re.IGNORECASE)
    return Path(url2pathname(urlsplit(local[1]).path)) if local else None


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


def hidden(text: str) -> str:
    """Return a text without the passwords in its addresses.

    >>> hidden("https://me:secret@example.org/images.gz")
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
