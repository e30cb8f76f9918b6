"""Whatever a server does, the right file comes into place or one line says why it does not."""

import hashlib
import random
import re
import shutil
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ntk_conditioning.errors import UserError
from ntk_workflow import downloads
from ntk_workflow.downloads import Fetched, RetryPolicy, fetch
from tests.support.fault_server import Plan, running

CONTENT = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
SIZE = len(CONTENT)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME, PATH = "mnist/images.gz", "/images.gz"

PLAN = Plan(content=CONTENT)
CUT = replace(PLAN, cut=100_000)
ENDED = replace(PLAN, cut=0)
BARE = replace(PLAN, etag=None, modified=None)
PAGE = Plan(content=b"<html>log in</html>", kind="text/html", etag=None, modified=None)
BUSY = Plan(content=b"", status=503)

# The timeout is out of the way of a busy machine, except where a server hangs.
POLICY = RetryPolicy(attempts=3, timeout=60, first_wait=0.001, longest_wait=0.02)


@pytest.fixture
def server():
    with running() as server:
        yield server


@pytest.fixture
def target(tmp_path):
    (tmp_path / "data/mnist").mkdir(parents=True)
    return tmp_path / "data" / NAME


@pytest.fixture
def mirror(tmp_path):
    (tmp_path / "a mirror/mnist").mkdir(parents=True)
    (tmp_path / "a mirror" / NAME).write_bytes(CONTENT)
    return tmp_path / "a mirror"


@pytest.fixture
def get(server, target, caplog):
    caplog.set_level("INFO", logger="ntk_workflow")

    def get(*plans: Plan, **options) -> Fetched:
        urls = [server.serve(PATH, *plans)] if plans else []
        options = {"urls": urls, "size": SIZE, "policy": POLICY} | options
        fetched = fetch(target, name=NAME, sha256=["0" * 64, SHA256], **options)
        assert_in_place(target, CONTENT)
        return fetched

    return get


@pytest.fixture
def refusal(get):
    def refusal(*plans: Plan, **options) -> str:
        with pytest.raises(UserError) as caught:
            get(*plans, **options)
        (line,) = str(caught.value).splitlines()
        return line

    return refusal


def assert_in_place(target: Path, content: bytes) -> None:
    assert target.read_bytes() == content
    assert {path.name for path in target.parent.iterdir()} == {target.name, f".{target.name}.lock"}


# The header is Apache's with .gz files, whose bytes must stay as they are.
WHOLE = [PLAN, replace(PLAN, headers={"Content-Encoding": "gzip"})]
WHOLE += [replace(PLAN, headers={"Content-Length": "many", "Connection": "close"}, cut=SIZE)]


@pytest.mark.parametrize("plan", WHOLE)
def test_a_file_is_sent_once(server, get, target, plan):
    target.write_bytes(b"another")
    for source in (server.url(PATH), None):
        assert get(plan) == Fetched(source=source, sha256=SHA256, size=SIZE)
    assert server.sent == SIZE


@pytest.mark.parametrize("plan", [CUT, replace(CUT, chunked=True), replace(CUT, etag='W/"1"')])
def test_a_cut_connection_is_continued(server, get, plan):
    get(plan, replace(plan, cut=None))
    assert server.ranges == [None, "bytes=100000-"]
    assert server.sent == SIZE
    condition = plan.modified if plan.etag.startswith("W/") else plan.etag
    assert server.seen[-1].headers["if-range"] == condition


def test_progress_is_never_given_up_and_its_lack_is(server, get, refusal, target):
    get(replace(PLAN, cut=20_000))
    assert server.sent == SIZE
    target.unlink()
    assert f"ended after 100000 of {SIZE} bytes (attempts: 4)" in refusal(CUT, ENDED)
    assert not target.exists()


def test_the_next_run_and_another_source_continue(server, get, refusal, mirror, caplog):
    refusal(CUT, ENDED)
    second = server.serve("/second", replace(PLAN, etag='"elsewhere"'))
    (mirror / NAME).write_bytes(OTHER)  # must not cost what was downloaded
    assert get(mirror=str(mirror), urls=[server.url(PATH), second]).source == second
    assert server.sent == SIZE
    assert f"{SIZE} bytes from {second}, continued at byte 100000" in caplog.text


# The last range that is asked for. If-Range notices another version; without it, the sha256 does.
ANSWERS = [
    ([replace(CUT, content=OTHER, etag='"old"'), PLAN], "bytes=100000-"),
    ([replace(BARE, content=OTHER, cut=100_000), BARE], None),
    ([replace(CUT, ranges=False), replace(PLAN, ranges=False)], "bytes=100000-"),
    ([CUT, replace(PLAN, content_range=f"bytes 0-{SIZE - 1}/{SIZE}")], None),
    ([CUT, PAGE, PLAN], "bytes=100000-"),  # a log-in page must not cost what is here
]


@pytest.mark.parametrize(("plans", "last"), ANSWERS)
def test_other_answers_than_the_rest_end_in_the_right_file(server, get, plans, last):
    get(*plans)
    assert server.ranges[1] == "bytes=100000-"
    assert server.ranges[-1] == last


@pytest.mark.parametrize("partial_file", [OTHER[:100_000], OTHER + OTHER, CONTENT])
def test_a_partial_file_of_another_run_is_judged_by_its_sha256(server, get, target, partial_file):
    target.with_name(f".{target.name}.part").write_bytes(partial_file)
    get(PLAN)
    assert server.seen[-1].sent == (0 if partial_file == CONTENT else SIZE)


def test_a_busy_server_and_a_lost_connection_are_tried_again(get, refusal, target):
    busy = [replace(BUSY, status=status) for status in (408, 429, 500, 503)]
    get(*busy, replace(CUT, reset=True), PLAN, policy=replace(POLICY, attempts=5))
    target.unlink()
    with running() as gone:
        lost = gone.url(PATH)
    assert f"{lost}: Connection refused (attempts: 3)" in refusal(urls=[lost])


def test_pauses_grow_and_heed_the_server_within_limits(server, refusal, monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr(downloads.time, "sleep", pauses.append)
    plans = [replace(BUSY, headers={"Retry-After": after}) for after in ("30", "soon", "9999")]
    line = refusal(*plans, BUSY, policy=RetryPolicy(attempts=9))
    assert f"{server.url(PATH)}: 503 Service Unavailable (attempts: 9)" in line
    least = [30, 2, 120, 8, 16, 32, 64, 120]
    assert all(low <= pause <= low + 1 for low, pause in zip(least, pauses, strict=True))


SLOW = [
    (replace(PLAN, silent=True), 0.3, "no answer within 0.3 s"),
    (replace(PLAN, hang=0), 0.3, "no answer within 0.3 s"),
    (replace(PLAN, rate=50), 2, r"only \d+ bytes within 2 s"),
]


@pytest.mark.parametrize(("plan", "timeout", "problem"), SLOW)
def test_a_silent_or_dripping_server_is_given_up(refusal, target, plan, timeout, problem):
    line = refusal(plan, policy=replace(POLICY, attempts=1, timeout=timeout))
    assert re.search(rf"{problem} \(attempts: 1\)", line)
    assert not target.exists()


NOT_THE_FILE = [
    (replace(PLAN, content=b"x"), f"has another file, of 1 bytes instead of {SIZE} "),
    (PAGE, f"sent a web page, of 19 bytes instead of {SIZE} "),
    (replace(PLAN, endless=True), r"does not stop after \d+ bytes"),
    (replace(PLAN, length=10**15), f"announces {10**15} bytes, the limit is {2 * SIZE}"),
    (Plan(content=b"", status=302, headers={"Location": PATH}), "Exceeded 30 redirects"),
    (Plan(content=b"", status=403), "403 Forbidden"),
    (replace(PLAN, status=206), "206 Partial Content"),
]


@pytest.mark.parametrize(("plan", "problem"), NOT_THE_FILE)
def test_what_is_not_the_file_is_named_and_leaves_nothing(server, refusal, target, plan, problem):
    target.write_bytes(b"another")
    line = refusal(plan)
    assert line.startswith(f"{NAME} cannot be fetched, {target} has another sha256: ")
    assert re.search(f"{server.url(PATH)}: {problem}", line)
    assert "(attempts:" not in line
    assert_in_place(target, b"another")


@pytest.mark.parametrize("plan", [replace(PLAN, endless=True), replace(PLAN, length=SIZE)])
def test_without_a_known_size_there_is_a_limit(server, refusal, plan):
    line = refusal(plan, size=0, policy=replace(POLICY, unknown_size_limit=SIZE - 1))
    assert "name the file's `bytes` in the catalogue" in line
    assert server.sent < 30 * SIZE  # what the sockets hold is on its way


def test_sources_are_tried_in_order_and_all_are_named(server, refusal, target):
    urls = [server.url("/a"), "ftp://x/y", server.url("/b")]
    line = refusal(mirror=server.url("/base/"), urls=urls, hint=", or pray")
    assert [seen.path for seen in server.seen] == [f"/base/{NAME}", "/a", "/b"]
    first, second, fourth = (f"{server.url(seen.path)}: 404 Not Found" for seen in server.seen)
    assert line == (
        f"{NAME} cannot be fetched: {first}; {second}; ftp://x/y: No connection adapters "
        f"were found for 'ftp://x/y'; {fourth}; "
        f"get the file with sha256 {'0' * 64} by hand and save it as {target}, or pray"
    )


@pytest.mark.parametrize("form", ["file://{}", "FILE://localhost{}/"])
def test_a_mirror_may_be_a_folder(server, get, mirror, form):
    get(PLAN, mirror=form.format(str(mirror).replace(" ", "%20")))
    assert server.seen == []


@pytest.mark.parametrize("base", ["ftp://example.org", "file://host/x", "nowhere"])
def test_a_mirror_that_is_none_leads_to_the_address(get, base, caplog):
    get(PLAN, mirror=base)
    assert f"{base}/{NAME}: " in caplog.text


def test_a_lock_that_cannot_be_taken_is_named(refusal, target):
    lock = target.with_name(f".{target.name}.lock")
    lock.mkdir(parents=True)  # as a lock of another user's: it cannot be opened
    assert refusal(PLAN).startswith(f"cannot lock {lock}: ")


def test_passwords_are_not_logged(server, refusal, caplog):
    url = server.serve(PATH, CUT, BUSY).replace("://", "://me:123456@")
    line = refusal(urls=[url, "http://me:123456@[::1"])
    assert "123456" not in line + caplog.text
    assert server.seen[0].headers["authorization"].startswith("Basic ")


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
def test_a_certificate_that_is_not_trusted_is_refused_at_once(server, refusal, tmp_path, caplog):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1"]
    make += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(make, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = server.serve(PATH, PLAN).replace("http:", "https:")
    line = refusal(urls=[url])
    assert "certificate verify failed: self-signed certificate" in line, line
    assert "attempt 2" not in caplog.text
