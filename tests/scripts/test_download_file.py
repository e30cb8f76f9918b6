"""Whatever a server does, the right file comes into place or one line says why it does not."""

import hashlib
import json
import random
import re
import resource
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import download_file
import pytest

from ntk_workflow import downloads
from tests.support.fault_server import Plan, running, wait_until

CONTENT = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
SIZE = len(CONTENT)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME, PATH = "mnist/images.gz", "/images.gz"
SCRIPT = Path(download_file.__file__)

PLAN = Plan(content=CONTENT)
CUT = replace(PLAN, cut=100_000)
ENDED = replace(PLAN, cut=0)
PAGE = Plan(content=b"<html>log in</html>", kind="text/html")
BUSY = Plan(content=b"", status=503)


@pytest.fixture(autouse=True)
def pauses(monkeypatch) -> list[float]:
    """Seconds for which a download would have waited, with a timeout for busy machines."""
    pauses: list[float] = []
    monkeypatch.setattr(downloads, "time", type("Time", (), {"sleep": pauses.append}))
    monkeypatch.setattr(downloads, "TIMEOUT", 60)
    return pauses


@pytest.fixture
def server():
    with running() as server:
        yield server


@pytest.fixture
def target(tmp_path):
    return tmp_path / "data" / NAME


@pytest.fixture
def part(target):
    target.parent.mkdir(parents=True)
    return target.with_name(f".{target.name}.part")


@pytest.fixture
def mirror(tmp_path):
    (tmp_path / "a mirror/mnist").mkdir(parents=True)
    (tmp_path / "a mirror" / NAME).write_bytes(CONTENT)
    return tmp_path / "a mirror"


def options(target: Path, urls: list[str], **more: object) -> list[str]:
    options = ["--name", NAME, "--output", str(target), "--sha256", "0" * 64, SHA256]
    options += [f"--{key}={value}" for key, value in more.items()]
    return [*options, f"--bytes={SIZE}", "--urls", *urls]


@pytest.fixture
def get(server, target, capsys):
    """Return a function that gets the file as plans have it, and returns what is logged."""

    def get(*plans: Plan, urls: list[str] | None = None, code: int = 0, **more: object) -> str:
        urls = [server.serve(PATH, *plans)] if urls is None else urls
        assert download_file.main(options(target, urls, **more)) == code
        if not code:
            assert_in_place(target, CONTENT)
        return capsys.readouterr().err

    return get


@pytest.fixture
def refusal(get):
    """Return a function that does not get the file, and returns the line that says why."""
    return lambda *plans, **more: get(*plans, code=2, **more).splitlines()[-1]


def assert_in_place(target: Path, content: bytes) -> None:
    assert target.read_bytes() == content
    assert {path.name for path in target.parent.iterdir()} == {target.name, f".{target.name}.lock"}


# The header is Apache's with .gz files, whose bytes must stay as they are.
@pytest.mark.parametrize("plan", [PLAN, replace(PLAN, headers={"Content-Encoding": "gzip"})])
def test_a_file_is_sent_once(server, get, plan):
    assert f"from {server.url(PATH)}, sha256 {SHA256}" in get(plan)
    assert "in place with the right sha256, nothing to do" in get(plan)
    assert server.sent == SIZE


def test_a_cut_connection_is_continued_as_long_as_something_comes(server, get):
    get(replace(PLAN, cut=40_000))
    assert len(server.ranges) == 8
    assert all(re.fullmatch(r"bytes=[1-9]\d+-", asked) for asked in server.ranges[1:])


def test_the_next_run_and_another_source_continue(server, get, refusal, mirror):
    assert "0 bytes read, 200000 more expected" in refusal(CUT, ENDED)
    second = server.serve("/second", PLAN)
    (mirror / NAME).write_bytes(OTHER)  # must not cost what was downloaded
    assert f"from {second}, sha256" in get(mirror=mirror, urls=[server.url(PATH), second])
    assert server.ranges[-1] not in (None, "bytes=0-")


@pytest.mark.parametrize("partial_file", [OTHER[:100_000], OTHER + OTHER, CONTENT])
def test_a_partial_file_of_another_run_is_judged_by_its_sha256(server, get, part, partial_file):
    part.write_bytes(partial_file)
    get(PLAN)
    assert (server.sent == 0) == (partial_file == CONTENT)


def test_a_busy_server_and_a_lost_connection_are_tried_again(get, refusal, target, pauses):
    get(*(replace(BUSY, status=status) for status in (408, 429, 500, 503)), CUT, PLAN)
    assert pauses == [2, 4, 8, 16, 2]
    target.unlink()
    with running() as gone:
        lost = gone.url(PATH)
    assert f"{lost}: Connection refused" in refusal(urls=[lost])


def test_a_silent_server_is_given_up(refusal, target, monkeypatch):
    monkeypatch.setattr(downloads, "TIMEOUT", 0.2)
    monkeypatch.setattr(downloads, "ATTEMPTS", 2)
    assert "timed out" in refusal(replace(PLAN, hang=0))
    assert not target.exists()


NOT_THE_FILE = [
    (replace(PLAN, content=b"x"), "has another file, of sha256 "),
    (PAGE, "sent a web page"),
    (replace(PLAN, endless=True), f"sends more than {2 * SIZE} bytes"),
    (Plan(content=b"", status=403), "403 Forbidden"),
]


@pytest.mark.parametrize(("plan", "problem"), NOT_THE_FILE)
def test_what_is_not_the_file_is_named_and_leaves_nothing(
    server, refusal, target, part, plan, problem
):
    target.write_bytes(b"another")
    line = refusal(plan)
    assert f"error: {NAME} cannot be fetched, {target} has another sha256: " in line
    assert re.search(f"{server.url(PATH)}: {problem}", line)
    assert_in_place(target, b"another")


def test_sources_are_tried_in_order_and_all_are_named(server, refusal, target):
    urls = [server.url("/a"), "ftp://x/y", server.url("/b")]
    line = refusal(mirror=server.url("/base/"), urls=urls)
    assert server.paths == [f"/base/{NAME}", "/a", "/b"]
    first, second, fourth = (f"{server.url(path)}: 404 Not Found; " for path in server.paths)
    assert f"cannot be fetched: {first}{second}ftp://x/y: No connection adapters" in line
    assert f"{fourth}get the file with sha256 {'0' * 64} by hand and save it as {target}" in line
    assert "cannot be fetched: no mirror is given and no address is known;" in refusal(urls=[])


def test_a_mirror_may_be_a_folder(server, get, target, mirror):
    for base in (mirror, f"file://{mirror}/".replace(" ", "%20")):
        get(PLAN, mirror=base)
        target.unlink()
    assert server.paths == []
    assert f"nowhere/{NAME}: no such file" in get(PLAN, mirror="nowhere")


def test_passwords_are_not_logged(server, get):
    url = server.serve(PATH, CUT, BUSY).replace("://", "://me:123456@")
    assert "123456" not in get(urls=[url, "http://me:123456@[::1"], code=2)
    assert server.headers[0]["authorization"].startswith("Basic ")


def test_a_receipt_says_what_is_in_place_wherever_it_came_from(get, mirror, tmp_path):
    receipt = tmp_path / "receipts/images.json"
    for _ in range(2):  # the second time it is in place
        get(urls=[], mirror=mirror, receipt=receipt)
        assert json.loads(receipt.read_text()) == {"name": NAME, "bytes": SIZE, "sha256": SHA256}
        receipt.unlink()


def start(target: Path, url: str, **more: object) -> subprocess.Popen[str]:
    command = [sys.executable, SCRIPT, *options(target, [url])]
    environment = {"PYTHONPATH": str(SCRIPT.parents[1] / "src")}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, **more)


def test_two_at_once_share_one_download_and_a_kill_loses_nothing(server, target, part):
    url = server.serve(PATH, replace(PLAN, hang=70_000), PLAN)
    with start(target, url) as first:
        wait_until(lambda: part.exists() and part.stat().st_size == 70_000)
        with start(target, url) as second:
            time.sleep(0.5)  # it waits for the first
            assert second.poll() is None
            first.kill()
            second.communicate()
    assert second.returncode == 0
    assert_in_place(target, CONTENT)
    assert server.ranges == [None, "bytes=70000-"]


def test_a_full_disk_is_one_line_and_costs_nothing(server, get, target, part):
    small = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (100_000, 100_000))
    with start(target, server.serve(PATH, PLAN), preexec_fn=small) as process:
        line = process.communicate()[1].splitlines()[-1]
    assert process.returncode == 2
    reason = f"File too large; the file needs {SIZE} bytes there"
    assert line == f"download_file: error: cannot write {part}: {reason}"
    get(PLAN)
    assert server.ranges[-1] == "bytes=100000-"
