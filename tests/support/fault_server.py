"""A real HTTP server on loopback that does everything wrong that a server can, when told to."""

import itertools
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECE = 4096


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the server does with one request; by default, everything right."""

    content: bytes
    status: int = 200
    kind: str = "application/octet-stream"
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    content_range: str | None = None  # sent instead of the right one
    length: int | None = None  # told instead of the right one
    chunked: bool = False
    cut: int | None = None  # bytes of this body after which the connection ends
    reset: bool = False  # ends with a reset
    silent: bool = False  # hangs before the headers
    hang: int | None = None  # bytes of this body after which nothing more comes
    gate: threading.Event | None = None  # for which the body waits
    endless: bool = False


MISSING = Plan(content=b"no such file", status=404, kind="text/html")


@dataclass
class Seen:
    """A request, and how many bytes of the body were sent."""

    path: str
    headers: dict[str, str]
    sent: int = 0


class FaultServer(ThreadingHTTPServer):
    """Answers the n-th request for a path with the path's n-th plan, then with its last one."""

    daemon_threads = False  # closing waits for them, so that none outlives its test

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plans: dict[str, list[Plan]] = {}
        self.seen: list[Seen] = []
        self.closing = threading.Event()
        self.lock = threading.Lock()

    def url(self, path: str = "") -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def serve(self, path: str, *plans: Plan) -> str:
        self.plans[path] = list(plans)
        return self.url(path)

    @property
    def sent(self) -> int:
        return sum(seen.sent for seen in self.seen)

    @property
    def ranges(self) -> list[str | None]:
        return [seen.headers.get("range") for seen in self.seen]

    def plan(self, path: str) -> Plan:
        with self.lock:
            plans = self.plans.get(path, [MISSING])
            return plans.pop(0) if len(plans) > 1 else plans[0]

    def handle_error(self, *_: Any) -> None:
        """Say nothing: clients that are killed close their connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultServer
    timeout = 60

    def log_message(self, *_arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        seen = Seen(self.path, {name.lower(): value for name, value in self.headers.items()})
        self.server.seen.append(seen)
        plan = self.server.plan(self.path)
        if plan.silent:
            self.server.closing.wait(60)
            self._end(reset=True)
            return
        status, body, span = self._body(plan)
        self.send_response(status)
        for name, value in self._headers(plan, body, span).items():
            self.send_header(name, value)
        self.end_headers()
        self._send(plan, body, seen)

    def _body(self, plan: Plan) -> tuple[int, bytes, str]:
        """Return the status, the bytes and the Content-Range."""
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if plan.status != 200 or not plan.ranges or asked is None:
            return plan.status, plan.content, ""
        start, end = int(asked[1]), len(plan.content)
        if start >= end:
            return 416, b"", ""
        return 206, plan.content[start:], plan.content_range or f"bytes {start}-{end - 1}/{end}"

    def _headers(self, plan: Plan, body: bytes, span: str) -> dict[str, str]:
        headers = {"Content-Type": plan.kind, "Content-Range": span}
        if plan.chunked:
            headers["Transfer-Encoding"] = "chunked"
        elif plan.endless:
            headers["Connection"] = "close"
        else:
            headers["Content-Length"] = str(plan.length or len(body))
        return {name: value for name, value in (headers | plan.headers).items() if value}

    def _send(self, plan: Plan, body: bytes, seen: Seen) -> None:
        stop = min(len(body) if at is None else at for at in (plan.cut, plan.hang))
        if plan.gate:
            plan.gate.wait(60)
        pieces = (body[at : min(at + PIECE, stop)] for at in range(0, stop, PIECE))
        for piece in itertools.repeat(b"x" * PIECE) if plan.endless else pieces:
            seen.sent += len(piece)  # before a client can have it, and ask
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if plan.chunked else piece)
        if plan.hang is not None:
            self.server.closing.wait(60)
        if plan.cut is not None or plan.hang is not None or plan.length is not None:
            self._end(reset=plan.reset)
        elif plan.chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _end(self, *, reset: bool) -> None:
        self.close_connection = True
        if reset:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


@contextmanager
def running() -> Iterator[FaultServer]:
    """Yield a server that has stopped, with all its threads, when the block is left."""
    with FaultServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()


def wait_until(condition: Any, *, within: float = 60.0) -> None:
    """Return when ``condition()`` holds."""
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
