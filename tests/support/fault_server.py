"""A real HTTP server on loopback that does what servers do wrong, when told to."""

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PIECE = 4096


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the server does with one request; by default, everything right."""

    content: bytes
    status: int = 200
    kind: str = "application/octet-stream"
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None  # bytes of this body after which the connection ends
    hang: int | None = None  # bytes of this body after which nothing more comes
    endless: bool = False


MISSING = Plan(content=b"no such file", status=404, kind="text/html")


class FaultServer(ThreadingHTTPServer):
    """Answers the n-th request for a path with the path's n-th plan, then with its last one."""

    daemon_threads = False  # closing waits for them, so that none outlives its test

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plans: dict[str, list[Plan]] = {}
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.sent = 0  # bytes of all bodies
        self.closing = threading.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def serve(self, path: str, *plans: Plan) -> str:
        self.plans[path] = list(plans)
        return self.url(path)

    @property
    def ranges(self) -> list[str | None]:
        return [headers.get("range") for headers in self.headers]

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients that are killed close their connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultServer
    timeout = 60

    def log_message(self, *_arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        server, plans = self.server, self.server.plans.get(self.path, [MISSING])
        server.paths.append(self.path)
        server.headers.append({name.lower(): value for name, value in self.headers.items()})
        plan = plans.pop(0) if len(plans) > 1 else plans[0]
        status, body, headers = plan.status, plan.content, {"Content-Type": plan.kind}
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and status == 200:
            start, end = int(asked[1]), len(body)
            status, body = (206, body[start:]) if start < end else (416, b"")
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{end}"
        length = {"Connection": "close"} if plan.endless else {"Content-Length": str(len(body))}
        self.send_response(status)
        for name, value in (headers | length | plan.headers).items():
            self.send_header(name, value)
        self.end_headers()
        stop = min(len(body) if at is None else at for at in (plan.cut, plan.hang))
        pieces = (body[at : min(at + PIECE, stop)] for at in range(0, stop, PIECE))
        for piece in itertools.repeat(b"x" * PIECE) if plan.endless else pieces:
            server.sent += len(piece)
            self.wfile.write(piece)
        if plan.hang is not None:
            server.closing.wait(60)
        self.close_connection = (plan.cut, plan.hang) != (None, None)


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


def wait_until(condition: Callable[[], object], *, within: float = 60.0) -> None:
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
