"""Whatever a server does, the right file comes into place or one line says why it does not."""

import hashlib
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ntk_conditioning.errors import UserError
from ntk_workflow import downloads
from ntk_workflow.downloads import Fetched, fetch
from tests.support.fault_server import Plan, running

CONTENT = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
SIZE = len(CONTENT)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME, PATH = "mnist/images.gz", "/images.gz"

PLAN = Plan(content=CONTENT)
CUT = replace(PLAN, cut=100_000)
ENDED = replace(PLAN, cut=0)
PAGE = Plan(content=b"<html>log in</html>", kind="text/html")
BUSY = Plan(content=b"", status=503)


@pytest.fixture(autouse=True)
def pauses(monkeypatch) -> list[float]:
    """Seconds for which a download would have waited, with a timeout for busy machines."""
    pauses: list[float] = []
    monkeypatch.setattr(downloads.time, "sleep", pauses.append)
    monkeypatch.setattr(downloads, "TIMEOUT", 60)
    return pauses


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
        options = {"urls": urls, "size": SIZE} | options
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


@pytest.mark.parametrize("plan", WHOLE)
def test_a_file_is_sent_once(server, get, target, plan):
    target.write_bytes(b"another")
    for source in (server.url(PATH), None):
        assert get(plan) == Fetched(source=source, sha256=SHA256, size=SIZE)
    assert server.sent == SIZE


@pytest.mark.parametrize("plan", [CUT, replace(CUT, chunked=True)])
def test_a_cut_connection_is_continued(server, get, plan):
    get(plan, replace(plan, cut=None))
    first, second = server.ranges
    assert first is None
    assert re.fullmatch(r"bytes=[1-9]\d+-", second)
    assert SIZE <= server.sent < SIZE + 2**17


def test_progress_is_never_given_up_and_its_lack_is(get, refusal, target):
    get(replace(PLAN, cut=70_000))
    target.unlink()
    assert "0 bytes read, 200000 more expected" in refusal(CUT, ENDED)
    assert not target.exists()


def test_the_next_run_and_another_source_continue(server, get, refusal, mirror):
    refusal(CUT, ENDED)
    second = server.serve("/second", PLAN)
    (mirror / NAME).write_bytes(OTHER)  # must not cost what was downloaded
    assert get(mirror=str(mirror), urls=[server.url(PATH), second]).source == second
    assert server.ranges[-1] not in (None, "bytes=0-")


ANSWERS = [
    [replace(CUT, content=OTHER), PLAN],  # of another version; the sha256 notices
    [replace(CUT, ranges=False), replace(PLAN, ranges=False)],
    [CUT, replace(PLAN, content_range=f"bytes 0-{SIZE - 1}/{SIZE}"), PLAN],
]


@pytest.mark.parametrize("plans", ANSWERS)
def test_other_answers_than_the_rest_end_in_the_right_file(server, get, plans):
    get(*plans)
    assert server.ranges[1].startswith("bytes=")


def test_a_page_for_logging_in_costs_nothing(server, get, refusal):
    assert "sent a web page" in refusal(CUT, replace(PAGE, ranges=False))
    get(PLAN)
    assert server.ranges[-1] not in (None, "bytes=0-")


@pytest.mark.parametrize("partial_file", [OTHER[:100_000], OTHER + OTHER, CONTENT])
def test_a_partial_file_of_another_run_is_judged_by_its_sha256(server, get, target, partial_file):
    target.with_name(f".{target.name}.part").write_bytes(partial_file)
    get(PLAN)
    assert server.seen[-1].sent == (0 if partial_file == CONTENT else SIZE)


def test_a_busy_server_and_a_lost_connection_are_tried_again(get, refusal, target):
    busy = [replace(BUSY, status=status) for status in (408, 429, 500, 503)]
    get(*busy, replace(CUT, reset=True), PLAN)
    target.unlink()
    with running() as gone:
        lost = gone.url(PATH)
    assert f"{lost}: Connection refused" in refusal(urls=[lost])


def test_pauses_grow_and_heed_the_server_within_limits(server, refusal, pauses):
    plans = [replace(BUSY, headers={"Retry-After": after}) for after in ("30", "soon", "9999")]
    assert f"{server.url(PATH)}: 503 Service Unavailable" in refusal(*plans, BUSY)
    assert pauses == [30, 2, 120, 8, 16]


@pytest.mark.parametrize("plan", [replace(PLAN, silent=True), replace(PLAN, hang=0)])
def test_a_silent_server_is_given_up(refusal, target, plan, monkeypatch):
    monkeypatch.setattr(downloads, "TIMEOUT", 0.2)
    monkeypatch.setattr(downloads, "ATTEMPTS", 2)
    assert "timed out" in refusal(plan)
    assert not target.exists()


NOT_THE_FILE = [
    (replace(PLAN, content=b"x"), "has another file, of 1 bytes and sha256 "),
    (PAGE, "sent a web page"),
    (replace(PLAN, endless=True), f"sends more than {2 * SIZE} bytes"),
    (replace(PLAN, length=10**15), f"sends more than {2 * SIZE} bytes"),
    (Plan(content=b"", status=302, headers={"Location": PATH}), "Exceeded 30 redirects"),
    (Plan(content=b"", status=403), "403 Forbidden"),
]


@pytest.mark.parametrize(("plan", "problem"), NOT_THE_FILE)
def test_what_is_not_the_file_is_named_and_leaves_nothing(server, refusal, target, plan, problem):
    target.write_bytes(b"another")
    line = refusal(plan)
    assert line.startswith(f"{NAME} cannot be fetched, {target} has another sha256: ")
    assert re.search(f"{server.url(PATH)}: {problem}", line)
    assert_in_place(target, b"another")


def test_without_a_known_size_there_is_a_limit(server, refusal, monkeypatch):
    monkeypatch.setattr(downloads, "UNKNOWN_SIZE", SIZE - 1)
    assert f"sends more than {SIZE - 1} bytes" in refusal(replace(PLAN, endless=True), size=0)
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


@pytest.mark.parametrize("form", ["{}", "file://{}/"])
def test_a_mirror_may_be_a_folder(server, get, mirror, form):
    get(PLAN, mirror=form.format(str(mirror).replace(" ", "%20") if "://" in form else mirror))
    assert server.seen == []


@pytest.mark.parametrize("base", ["ftp://example.org", "file://host/x", "nowhere"])
def test_a_mirror_that_is_none_leads_to_the_address(get, base, caplog):
    get(PLAN, mirror=base)
    assert f"{base}/{NAME}: " in caplog.text


def test_a_lock_that_cannot_be_taken_is_named(refusal, target):
    lock = target.with_name(f".{target.name}.lock")
    lock.mkdir(parents=True)  # as a lock of another user's: it cannot be opened
    assert refusal(PLAN).startswith(f"cannot write {lock}: ")


def test_passwords_are_not_logged(server, refusal, caplog):
    url = server.serve(PATH, CUT, BUSY).replace("://", "://me:123456@")
    line = refusal(urls=[url, "http://me:123456@[::1"])
    assert "123456" not in line + caplog.text
    assert server.seen[0].headers["authorization"].startswith("Basic ")
