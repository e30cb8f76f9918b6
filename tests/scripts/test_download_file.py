import hashlib
import itertools
import json
import random
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import download_file
import pytest

from ntk_workflow import downloads

CONTENT, OTHER = (random.Random(seed).randbytes(300_000) for seed in (0, 1))
SIZE = len(CONTENT)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME, PATH = "mnist/images.gz", "/images.gz"
SCRIPT = Path(download_file.__file__)
TARGET, MIRROR = Path("data", NAME), Path("a mirror")
PART = TARGET.with_name(f".{TARGET.name}.part")


@dataclass(frozen=True)
class Plan:
    """What the server does with one request; by default, everything right."""

    content: bytes = CONTENT
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None  # bytes of this body after which the connection ends
    hang: int | None = None  # bytes of this body after which nothing more comes
    endless: bool = False


PLAN, CUT, BUSY = Plan(), Plan(cut=100_000), Plan(b"", status=503)
PAGE = Plan(b"<html>log in</html>", headers={"Content-Type": "text/html"})


class Server(ThreadingHTTPServer):
    """A real server that answers the n-th request for a path with its n-th plan, or its last."""

    daemon_threads = False  # closing waits for them, so that none outlives its test

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plans, self.paths, self.headers, self.sent = {}, [], [], 0
        self.closing = threading.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def serve(self, path: str, *plans: Plan) -> str:
        self.plans[path] = list(plans)
        return self.url(path)

    @property
    def ranges(self) -> list[str | None]:
        return [headers["Range"] for headers in self.headers]

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients that are killed close their connections."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        server, plans = self.server, self.server.plans.get(self.path, [Plan(b"", status=404)])
        server.paths.append(self.path)
        server.headers.append(self.headers)
        plan = plans.pop(0) if len(plans) > 1 else plans[0]
        status, body, headers = plan.status, plan.content, dict(plan.headers)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and status == 200:
            start, end = int(asked[1]), len(body)
            status, body = (206, body[start:]) if start < end else (416, b"")
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{end}"
        length = {"Connection": "close"} if plan.endless else {"Content-Length": len(body)}
        self.send_response(status)
        for name, value in (headers | length).items():
            self.send_header(name, str(value))
        self.end_headers()
        stop = min(len(body) if at is None else at for at in (plan.cut, plan.hang))
        pieces = (body[at : min(at + 4096, stop)] for at in range(0, stop, 4096))
        for piece in itertools.repeat(bytes(4096)) if plan.endless else pieces:
            server.sent += len(piece)
            self.wfile.write(piece)
        if plan.hang is not None:
            server.closing.wait(60)
        self.close_connection = (plan.cut, plan.hang) != (None, None)


@contextmanager
def running() -> Iterator[Server]:
    """Yield a server that has stopped, with all its threads, when the block is left."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.closing.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def server():
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def pauses(folder, monkeypatch) -> list[float]:
    """Seconds for which a download would have waited, with a timeout for busy machines."""
    pauses: list[float] = []
    monkeypatch.setattr(downloads, "time", type("Time", (), {"sleep": pauses.append}))
    monkeypatch.setattr(downloads, "TIMEOUT", 60)
    (MIRROR / NAME).parent.mkdir(parents=True)
    (MIRROR / NAME).write_bytes(CONTENT)
    return pauses


def options(urls: list[str], **more: object) -> list[str]:
    given = {"name": NAME, "output": TARGET, "bytes": SIZE} | more
    words = [f"--{key}={value}" for key, value in given.items()]
    return [*words, "--sha256", "0" * 64, SHA256, "--urls", *urls]


@pytest.fixture
def get(server, capsys):
    """Return a function that gets the file as plans have it, and returns what is logged."""

    def get(*plans: Plan, urls: list[str] | None = None, code: int = 0, **more: object) -> str:
        urls = [server.serve(PATH, *plans)] if urls is None else urls
        assert download_file.main(options(urls, **more)) == code
        if not code:
            assert_in_place(CONTENT)
        return capsys.readouterr().err

    return get


@pytest.fixture
def refusal(get):
    """Return a function that does not get the file, and returns the line that says why."""
    return lambda *plans, **more: get(*plans, code=2, **more).splitlines()[-1]


def assert_in_place(content: bytes) -> None:
    assert TARGET.read_bytes() == content
    assert {path.name for path in TARGET.parent.iterdir()} == {TARGET.name, f".{TARGET.name}.lock"}


# The header is Apache's with .gz files, whose bytes must stay as they are.
@pytest.mark.parametrize("plan", [PLAN, Plan(headers={"Content-Encoding": "gzip"})])
def test_a_file_is_sent_once(server, get, plan):
    assert f"from {server.url(PATH)}, sha256 {SHA256}" in get(plan)
    assert "in place with the right sha256, nothing to do" in get(plan)
    assert server.sent == SIZE


def test_a_cut_connection_is_continued_as_long_as_something_comes(server, get):
    get(Plan(cut=40_000))
    assert len(server.ranges) == 8
    assert all(re.fullmatch(r"bytes=[1-9]\d+-", asked) for asked in server.ranges[1:])


def test_the_next_run_and_another_source_continue(server, get, refusal):
    assert "0 bytes read, 200000 more expected" in refusal(CUT, Plan(cut=0))
    second = server.serve("/second", PLAN)
    (MIRROR / NAME).write_bytes(OTHER)  # must not cost what was downloaded
    assert f"from {second}, sha256" in get(mirror=MIRROR, urls=[server.url(PATH), second])
    assert server.ranges[-1] not in (None, "bytes=0-")


@pytest.mark.parametrize("partial_file", [OTHER[:100_000], OTHER + OTHER, CONTENT])
def test_a_partial_file_of_another_run_is_judged_by_its_sha256(server, get, partial_file):
    PART.parent.mkdir(parents=True)
    PART.write_bytes(partial_file)
    get(PLAN)
    assert (server.sent == 0) == (partial_file == CONTENT)


def test_a_busy_server_and_a_lost_connection_are_tried_again(get, refusal, pauses):
    get(*(replace(BUSY, status=status) for status in (408, 429, 500, 503)), CUT, PLAN)
    assert pauses == [2, 4, 8, 16, 2]
    TARGET.unlink()
    with running() as gone:
        lost = gone.url(PATH)
    assert f"{lost}: Connection refused" in refusal(urls=[lost])


def test_a_silent_server_is_given_up(refusal, monkeypatch):
    monkeypatch.setattr(downloads, "TIMEOUT", 0.2)
    monkeypatch.setattr(downloads, "ATTEMPTS", 2)
    assert "timed out" in refusal(Plan(hang=0))
    assert not TARGET.exists()


NOT_THE_FILE = [
    (Plan(b"x"), "has another file, of sha256 "),
    (PAGE, "sent a web page"),
    (Plan(endless=True), f"sends more than {2 * SIZE} bytes"),
    (Plan(b"", status=403), "403 Forbidden"),
]


@pytest.mark.parametrize(("plan", "problem"), NOT_THE_FILE)
def test_what_is_not_the_file_is_named_and_leaves_nothing(server, refusal, plan, problem):
    TARGET.parent.mkdir(parents=True)
    TARGET.write_bytes(b"another")
    line = refusal(plan)
    assert f"error: {NAME} cannot be fetched, {TARGET} has another sha256: " in line
    assert f"{server.url(PATH)}: {problem}" in line
    assert_in_place(b"another")


def test_sources_are_tried_in_order_and_all_are_named(server, refusal):
    urls = [server.url("/a"), "ftp://x/y", server.url("/b")]
    line = refusal(mirror=server.url("/base/"), urls=urls)
    assert server.paths == [f"/base/{NAME}", "/a", "/b"]
    first, second, fourth = (f"{server.url(path)}: 404 Not Found; " for path in server.paths)
    assert f"cannot be fetched: {first}{second}ftp://x/y: No connection adapters" in line
    assert f"{fourth}get the file with sha256 {'0' * 64} by hand and save it as {TARGET}" in line
    assert "cannot be fetched: no mirror is given and no address is known;" in refusal(urls=[])


def test_a_mirror_may_be_a_folder(server, get):
    for base in (MIRROR, f"{MIRROR.absolute().as_uri()}/"):
        get(PLAN, mirror=base)
        TARGET.unlink()
    assert server.paths == []
    assert f"nowhere/{NAME}: no such file" in get(PLAN, mirror="nowhere")


def test_passwords_are_not_logged(server, get):
    url = server.serve(PATH, CUT, BUSY).replace("://", "://me:123456@")
    assert "123456" not in get(urls=[url, "http://me:123456@[::1"], code=2)
    assert server.headers[0]["Authorization"].startswith("Basic ")


def test_a_receipt_says_what_is_in_place_wherever_it_came_from(get):
    receipt = Path("receipts/images.json")
    for _ in range(2):  # the second time it is in place
        get(urls=[], mirror=MIRROR, receipt=receipt)
        assert json.loads(receipt.read_text()) == {"name": NAME, "bytes": SIZE, "sha256": SHA256}
        receipt.unlink()


def start(url: str, **more: object) -> subprocess.Popen[str]:
    command = [sys.executable, SCRIPT, *options([url])]
    environment = {"PYTHONPATH": str(SCRIPT.parents[1] / "src")}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, **more)


def test_two_at_once_share_one_download_and_a_kill_loses_nothing(server):
    url = server.serve(PATH, Plan(hang=70_000), PLAN)
    with start(url) as first:
        while not (PART.exists() and PART.stat().st_size == 70_000):
            assert first.poll() is None
            time.sleep(0.005)
        with start(url) as second:
            time.sleep(0.5)  # it waits for the first
            assert second.poll() is None
            first.kill()
            second.communicate()
    assert second.returncode == 0
    assert_in_place(CONTENT)
    assert server.ranges == [None, "bytes=70000-"]


def test_a_full_disk_is_one_line_and_costs_nothing(server, get):
    small = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (100_000, 100_000))
    with start(server.serve(PATH, PLAN), preexec_fn=small) as process:
        line = process.communicate()[1].splitlines()[-1]
    assert process.returncode == 2
    reason = f"File too large; the file needs {SIZE} bytes there"
    assert line == f"download_file: error: cannot write {PART}: {reason}"
    get(PLAN)
    assert server.ranges[-1] == "bytes=100000-"
