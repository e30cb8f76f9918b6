"""Whatever a server does, the right file comes into place or one line says why it does not."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import logging
import os
import random
import re
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tqdm import tqdm

from ntk_workflow.downloads import (
    Fetched,
    MirrorError,
    NotAvailableError,
    Patience,
    PlaceError,
    fetch,
)
from tests.fault_server import FaultServer, Plan, ProxyHandler, running, wait_until

CONTENT = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(250_000)
SIZE = len(CONTENT)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "mnist/images.gz"
PATH = "/images.gz"
PAGE = b"<html>down for maintenance</html>"

PLAN = Plan(content=CONTENT)
BARE = replace(PLAN, etag=None, modified=None)
CUT = replace(PLAN, cut=100_000)
HTML = Plan(content=PAGE, kind="text/html", etag=None, modified=None)

# The time-out is out of the way of a busy machine, except where a server hangs.
IMPATIENT = Patience(attempts=3, timeout=20, first_wait=0.001, longest_wait=0.02)
HASTY = replace(IMPATIENT, timeout=0.3)


@pytest.fixture
def server():
    with running() as server:
        yield server


@pytest.fixture
def target(tmp_path):
    return tmp_path / "data" / NAME


@pytest.fixture
def get(target):
    """Return `fetch` for the target, with what all tests share."""
    return partial(
        fetch, target, name=NAME, sha256=["0" * 64, SHA256], size=SIZE, patience=IMPATIENT
    )


@pytest.fixture
def text(caplog):
    caplog.set_level(logging.INFO, logger="ntk_conditioning")
    return lambda: caplog.text


def refusal(get, **options) -> str:
    with pytest.raises(NotAvailableError) as caught:
        get(**options)
    (line,) = str(caught.value).splitlines()
    return line


def leftovers(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir() if path.suffix != ".lock")


def partial_file(target: Path, content: bytes, **note: object) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.with_name(f".{target.name}.part").write_bytes(content)
    target.with_name(f".{target.name}.part.json").write_text(json.dumps(note))


def assert_right(target: Path) -> None:
    assert target.read_bytes() == CONTENT
    assert leftovers(target) == [target.name]


def ranges(server: FaultServer) -> list[str | None]:
    return [seen.range for seen in server.seen]


class TestAGoodServer:
    def test_sends_the_file_once(self, server, get, target):
        url = server.serve(PATH, PLAN)
        assert get(urls=[url]) == Fetched(source=url, sha256=SHA256, size=SIZE)
        assert_right(target)
        (seen,) = server.seen
        assert (seen.range, seen.sent, seen.headers["accept-encoding"]) == (None, SIZE, "identity")

    def test_is_not_asked_for_a_file_that_is_right(self, server, get, target):
        target.parent.mkdir(parents=True)
        target.write_bytes(CONTENT)
        url = server.serve(PATH, PLAN)
        assert get(urls=[url]) == Fetched(source=None, sha256=SHA256, size=SIZE)
        assert server.seen == []
        assert leftovers(target) == [target.name]

    def test_replaces_a_wrong_file(self, server, get, target):
        target.parent.mkdir(parents=True)
        target.write_bytes(b"another")
        get(urls=[server.serve(PATH, PLAN)])
        assert_right(target)

    def test_may_redirect(self, server, get, target):
        server.serve("/real", CUT, PLAN)
        moved = Plan(content=b"", status=302, headers={"Location": "/real"})
        get(urls=[server.serve(PATH, moved)])
        assert_right(target)
        assert ranges(server) == [None, None, "bytes=100000-", "bytes=100000-"]

    def test_may_redirect_for_ever(self, server, get):
        moved = Plan(content=b"", status=302, headers={"Location": PATH})
        line = refusal(get, urls=[server.serve(PATH, moved)])
        assert "redirects without end" in line

    def test_may_tell_no_length(self, server, get, target):
        chunked = replace(PLAN, chunked=True)
        get(urls=[server.serve(PATH, chunked)])
        assert_right(target)

    def test_may_tell_a_length_that_does_not_count(self, server, get, target):
        chunked = replace(PLAN, chunked=True, headers={"Content-Length": "7"})
        get(urls=[server.serve(PATH, chunked)])
        assert_right(target)

    @pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "br", "deflate"])
    def test_may_name_an_encoding(self, server, get, target, encoding):
        # As Apache does with .gz files, whose bytes are to stay as they are.
        encoded = replace(CUT, headers={"Content-Encoding": encoding})
        get(urls=[server.serve(PATH, encoded, replace(encoded, cut=None))])
        assert_right(target)
        assert server.sent == SIZE

    def test_is_asked_through_the_proxy(self, server, get, target, monkeypatch):
        server.serve(PATH, PLAN)
        with running(ProxyHandler) as proxy:
            proxy.upstream = f"127.0.0.1:{server.server_port}"
            monkeypatch.setenv("http_proxy", proxy.url())
            get(urls=[f"http://files.invalid{PATH}"])
            assert [seen.path for seen in proxy.seen] == [f"http://files.invalid{PATH}"]
        assert_right(target)


class TestResuming:
    @pytest.mark.parametrize("plan", [CUT, replace(CUT, reset=True), replace(CUT, chunked=True)])
    def test_a_cut_connection_is_continued(self, server, get, target, plan):
        get(urls=[server.serve(PATH, plan, PLAN)])
        assert_right(target)
        first, second = server.seen
        came = int(re.fullmatch(r"bytes=(\d+)-", second.range)[1])
        assert first.range is None
        assert second.headers["if-range"] == '"one"'
        # What a reset throws away is on its way, not on the disk.
        assert 0 < came <= 100_000 if plan.reset else came == 100_000
        assert second.sent == SIZE - came

    def test_any_number_of_cuts_is_survived_that_bring_something(self, server, get, target):
        get(urls=[server.serve(PATH, replace(PLAN, cut=10_000))])
        assert_right(target)
        assert ranges(server)[1:] == [f"bytes={at}-" for at in range(10_000, SIZE, 10_000)]
        assert server.sent == SIZE

    @pytest.mark.parametrize("cut", [0, 1])
    def test_cuts_that_bring_nothing_are_not(self, server, get, target, cut):
        line = refusal(get, urls=[server.serve(PATH, CUT, replace(PLAN, cut=cut))])
        assert f"ended after {100_000 + 3 * cut} of {SIZE} bytes (attempts: 4)" in line
        assert leftovers(target) == [".images.gz.part", ".images.gz.part.json"]

    def test_the_next_run_continues_too(self, server, get, target, text):
        url = server.serve(PATH, CUT, replace(PLAN, cut=0))
        refusal(get, urls=[url])
        server.serve(PATH, PLAN)
        get(urls=[url])
        assert_right(target)
        assert (server.seen[-1].range, server.seen[-1].sent) == ("bytes=100000-", SIZE - 100_000)
        assert "continued at byte 100000" in text()

    def test_a_server_that_ignores_ranges_is_read_from_the_start(self, server, get, target):
        plain = replace(PLAN, ranges=False)
        get(urls=[server.serve(PATH, replace(CUT, ranges=False), plain)])
        assert_right(target)
        assert [seen.sent for seen in server.seen] == [100_000, SIZE]

    def test_and_given_up_if_it_always_cuts(self, server, get, target):
        line = refusal(get, urls=[server.serve(PATH, replace(CUT, ranges=False))])
        assert f"ended after 100000 of {SIZE} bytes (attempts: 4)" in line
        assert not target.exists()

    def test_if_range_is_the_date_beside_a_weak_etag(self, server, get, target):
        weak = replace(PLAN, etag='W/"one"')
        get(urls=[server.serve(PATH, replace(weak, cut=9_999), weak)])
        assert_right(target)
        assert server.seen[1].headers["if-range"] == PLAN.modified
        assert server.seen[1].sent == SIZE - 9_999

    def test_a_weak_etag_alone_is_compared_afterwards(self, server, get, target):
        weak = replace(PLAN, etag='W/"one"', modified=None)
        get(urls=[server.serve(PATH, replace(weak, cut=9_999), weak)])
        assert_right(target)
        assert "if-range" not in server.seen[1].headers
        assert server.seen[1].sent == SIZE - 9_999

    def test_without_validators_the_sha256_judges(self, server, get, target):
        get(urls=[server.serve(PATH, replace(BARE, cut=100_000), BARE)])
        assert_right(target)
        assert ranges(server) == [None, "bytes=100000-"]
        assert server.sent == SIZE

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ({}, {"etag": '"two"'}),  # If-Range: a 200
            ({"etag": 'W/"one"', "modified": None}, {"etag": 'W/"two"', "modified": None}),
            ({"etag": None, "modified": None}, {"etag": None, "modified": None}),  # the total
        ],
    )
    def test_a_file_that_changes_is_read_from_the_start(self, server, get, target, before, after):
        old = replace(PLAN, content=OTHER, cut=100_000, **before)
        get(urls=[server.serve(PATH, old, replace(PLAN, **after))])
        assert_right(target)
        assert server.seen[-1].sent == SIZE

    def test_pieces_of_two_files_are_thrown_away_once(self, server, get, target):
        # Same length, no validators: only the sha256 can tell.
        old = replace(BARE, content=OTHER + OTHER[: SIZE - len(OTHER)], cut=100_000)
        get(urls=[server.serve(PATH, old, BARE)])
        assert_right(target)
        assert ranges(server) == [None, "bytes=100000-", None]

    def test_and_not_a_second_time(self, server, get, target):
        other = replace(BARE, content=OTHER, cut=200_000)
        url = server.serve(PATH, other, other, other, replace(other, cut=None))
        assert "has another file, of 250000 bytes instead of 300000" in refusal(get, urls=[url])
        assert ranges(server) == [None, "bytes=200000-", None, "bytes=200000-"]
        assert leftovers(target) == []

    @pytest.mark.parametrize(
        "told",
        ["bytes 0-299999/300000", "bytes 100000-299999/300001", "bytes */300000", "nonsense"],
    )
    def test_a_wrong_content_range_is_not_believed(self, server, get, target, told):
        get(urls=[server.serve(PATH, CUT, replace(PLAN, content_range=told))])
        assert_right(target)
        assert ranges(server) == [None, "bytes=100000-", None]

    def test_an_unsatisfiable_range_starts_over(self, server, get, target):
        url = server.serve(PATH, PLAN)
        partial_file(target, OTHER + OTHER, source=url)
        get(urls=[url])
        assert_right(target)
        assert [seen.status for seen in server.seen] == [416, 200]

    def test_a_whole_partial_file_is_only_renamed(self, server, get, target):
        url = server.serve(PATH, PLAN)
        partial_file(target, CONTENT, source=url)
        get(urls=[url])
        assert_right(target)
        assert server.seen == []

    def test_a_damaged_partial_file_is_thrown_away(self, server, get, target):
        url = server.serve(PATH, PLAN)
        damaged = b"\0" * 4096 + CONTENT[4096:200_000]
        partial_file(target, damaged, source=url, etag='"one"', modified=None, total=SIZE)
        get(urls=[url])
        assert_right(target)
        assert ranges(server) == ["bytes=200000-", None]

    @pytest.mark.parametrize("note", ["", "{", "[]", '{"source": 1}', '{"other": "x"}'])
    def test_a_partial_file_of_unknown_origin_is_not_used(self, server, get, target, note):
        url = server.serve(PATH, PLAN)
        partial_file(target, CONTENT[:1000])
        target.with_name(f".{target.name}.part.json").write_text(note)
        get(urls=[url])
        assert_right(target)
        assert ranges(server) == [None]

    def test_an_error_page_does_not_cost_what_is_here(self, server, get, target):
        get(urls=[server.serve(PATH, CUT, HTML, PLAN)])
        assert_right(target)
        assert ranges(server) == [None, "bytes=100000-", "bytes=100000-"]

    def test_another_source_continues_the_same_file(self, server, get, target):
        first = server.serve("/first", CUT, replace(PLAN, cut=0))
        second = server.serve("/second", replace(PLAN, etag='"elsewhere"', modified=None))
        assert get(urls=[first, second]).source == second
        assert_right(target)
        assert server.sent == SIZE
        assert "if-range" not in server.seen[-1].headers

    def test_but_not_another_one(self, server, get, target):
        first = server.serve("/first", replace(CUT, content=OTHER), replace(PLAN, status=404))
        get(urls=[first, server.serve("/second", PLAN)])
        assert_right(target)


class TestPassingTrouble:
    @pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
    def test_a_busy_server_is_asked_again(self, server, get, target, status, text):
        busy = Plan(content=PAGE, status=status, kind="text/html")
        get(urls=[server.serve(PATH, busy, busy, PLAN)])
        assert_right(target)
        assert [seen.status for seen in server.seen] == [status, status, 200]
        assert f"{status} " in text()
        assert "attempt 3 of 3" in text()

    def test_and_given_up_after_so_many_attempts(self, server, get, target):
        line = refusal(get, urls=[server.serve(PATH, Plan(content=b"", status=503))])
        assert f"{server.url(PATH)}: 503 Service Unavailable (attempts: 3)" in line
        assert len(server.seen) == 3
        assert not target.exists()

    def test_it_may_say_when_to_come_again(self, server, get, target):
        busy = Plan(content=b"", status=503, headers={"Retry-After": "1"})
        before = time.monotonic()
        get(urls=[server.serve(PATH, busy, PLAN)], patience=replace(IMPATIENT, longest_wait=5))
        assert 1 <= time.monotonic() - before < 3
        assert_right(target)

    def test_but_not_too_late(self, server, get, target):
        busy = Plan(content=b"", status=429, headers={"Retry-After": "3600"})
        before = time.monotonic()
        get(urls=[server.serve(PATH, busy, PLAN)])
        assert time.monotonic() - before < 2
        assert_right(target)

    def test_pauses_grow(self, server, get, monkeypatch):
        pauses = []
        monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
        patience = Patience(attempts=9, timeout=5)
        refusal(get, urls=[server.serve(PATH, Plan(content=b"", status=503))], patience=patience)
        assert len(pauses) == 8
        for number, pause in enumerate(pauses):
            assert min(120, 2**number) <= pause <= min(120, 2**number) + 1

    @pytest.mark.parametrize("plan", [replace(PLAN, silent=True), replace(PLAN, hang=100_000)])
    def test_a_hanging_server_is_asked_again(self, server, get, target, plan):
        get(urls=[server.serve(PATH, plan, PLAN)], patience=HASTY)
        assert_right(target)
        assert server.sent == SIZE

    @pytest.mark.parametrize("plan", [replace(PLAN, silent=True), replace(PLAN, hang=0)])
    def test_and_given_up_if_it_always_hangs(self, server, get, target, plan):
        before = time.monotonic()
        line = refusal(get, urls=[server.serve(PATH, plan)], patience=HASTY)
        assert "no answer within 0.3 s (attempts: 3)" in line
        assert time.monotonic() - before < 3
        assert not target.exists()

    def test_a_dripping_server_is_as_good_as_a_hanging_one(self, server, get, target):
        url = server.serve(PATH, replace(PLAN, drip=0.02))
        line = refusal(get, urls=[url], patience=HASTY)
        assert re.search(r"only \d+ bytes within 0.3 s \(attempts: 3\)", line)

    def test_a_connection_that_ends_at_once_is_tried_again(self, server, get, target):
        server.closing.set()  # so that silence ends at once
        get(urls=[server.serve(PATH, replace(PLAN, silent=True), PLAN)])
        assert_right(target)

    def test_nobody_listening_is_said(self, get):
        with running() as server:
            url = server.url(PATH)
        assert f"{url}: Connection refused (attempts: 3)" in refusal(get, urls=[url])

    def test_a_server_that_speaks_something_else_is_said(self, get):
        class Nonsense(BaseHTTPRequestHandler):
            def handle(self):
                self.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")

        with running(Nonsense) as server:
            line = refusal(get, urls=[server.url(PATH)])
        assert "SSH-2.0-OpenSSH_9.6" in line


class TestLies:
    def test_more_told_than_there_is_does_no_harm(self, server, get, target):
        get(urls=[server.serve(PATH, replace(PLAN, length=SIZE + 5_000))])
        assert_right(target)
        assert len(server.seen) == 1

    def test_less_told_than_there_is_is_noticed(self, server, get, target):
        line = refusal(get, urls=[server.serve(PATH, replace(PLAN, length=SIZE - 5_000))])
        assert f"has another file, of {SIZE - 5_000} bytes instead of {SIZE} and sha256 " in line
        assert leftovers(target) == []

    @pytest.mark.parametrize("length", ["-1", "many", "1e6", "0x10"])
    def test_a_length_that_is_no_number_is_not_heard(self, server, get, target, length):
        plan = replace(PLAN, headers={"Content-Length": length, "Connection": "close"}, cut=SIZE)
        get(urls=[server.serve(PATH, plan)])
        assert_right(target)

    def test_two_lengths_are_one_too_many(self, server, get, target):
        plan = replace(PLAN, headers={"content-length": "7"})
        assert "Content-Length contained multiple" in refusal(get, urls=[server.serve(PATH, plan)])

    def test_an_endless_body_is_stopped(self, server, get, target):
        line = refusal(get, urls=[server.serve(PATH, replace(PLAN, endless=True))])
        assert re.search(r"does not stop after \d+ bytes", line)
        assert 2 * SIZE < server.sent < 30 * SIZE  # what the sockets hold is on its way
        assert leftovers(target) == []

    def test_an_endless_body_is_not_begun_if_told(self, server, get, target):
        line = refusal(get, urls=[server.serve(PATH, replace(PLAN, length=10**15))])
        assert f"tells of {10**15} bytes, the file has {SIZE}" in line

    def test_an_error_page_is_named(self, server, get, target):
        line = refusal(get, urls=[server.serve(PATH, HTML)])
        assert f"{server.url(PATH)}: sent text/html of {len(PAGE)} bytes, not the file" in line
        assert leftovers(target) == []

    def test_a_part_that_was_not_asked_for_is_refused(self, server, get, target):
        line = refusal(get, urls=[server.serve(PATH, replace(PLAN, status=206))])
        assert "206 Partial Content" in line


class TestSources:
    @pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 204])
    def test_a_plain_no_leads_to_the_next_at_once(self, server, get, target, status):
        first = server.serve("/first", Plan(content=b"", status=status))
        second = server.serve("/second", PLAN)
        assert get(urls=[first, second]).source == second
        assert_right(target)
        assert [seen.status for seen in server.seen] == [status, 200]

    def test_the_order_is_mirror_then_addresses(self, server, get, target):
        urls = [server.url("/a"), server.url("/b")]
        line = refusal(get, mirror=f"{server.url('/mirror')}/", urls=urls)
        paths = [f"/mirror/{NAME}", "/a", "/b"]
        assert [seen.path for seen in server.seen] == paths
        said = "; ".join(f"{server.url(path)}: 404 Not Found" for path in paths)
        assert line == (
            f"{NAME} cannot be fetched: {said}; "
            f"get the file with sha256 {'0' * 64} by hand and save it as {target}, or "
            "name a mirror that has it: --config mirror=DIR"
        )

    def test_a_mirror_has_the_quoted_name(self, server, get, target):
        server.serve("/base/my%20files/x%23y.gz", PLAN)
        get(name="my files/x#y.gz", mirror=server.url("/base"))
        assert_right(target)

    def test_a_mirror_may_be_a_folder_of_another_content(self, server, get, target, tmp_path, text):
        (tmp_path / "mirror" / "mnist").mkdir(parents=True)
        (tmp_path / "mirror" / NAME).write_bytes(OTHER)
        url = server.serve(PATH, PLAN)
        assert get(mirror=str(tmp_path / "mirror"), urls=[url]).source == url
        assert_right(target)
        assert f"{tmp_path / 'mirror' / NAME}: has another file, of 250000 bytes" in text()

    def test_a_mirror_s_folder_does_not_cost_what_came(self, server, get, target, tmp_path):
        (tmp_path / "mirror" / "mnist").mkdir(parents=True)
        (tmp_path / "mirror" / NAME).write_bytes(OTHER)
        url = server.serve(PATH, CUT, replace(PLAN, cut=0))
        refusal(get, urls=[url])
        server.serve(PATH, PLAN)
        get(mirror=str(tmp_path / "mirror"), urls=[url])
        assert server.sent == SIZE

    @pytest.mark.parametrize("form", ["{}", "file://{}", "FILE://localhost{}"])
    def test_a_local_file_is_a_source_too(self, get, target, tmp_path, form):
        (tmp_path / "copy").write_bytes(CONTENT)
        get(urls=[form.format(tmp_path / "copy")])
        assert_right(target)

    def test_a_local_file_that_cannot_be_read_is_named(self, get, tmp_path):
        (tmp_path / "loop").symlink_to("loop")
        os.mkfifo(tmp_path / "pipe")
        line = refusal(get, urls=[f"file://{tmp_path / what}" for what in ("loop", "pipe", "")])
        assert line.count("no such file") == 3

    def test_no_address_at_all_is_said(self, get, target):
        assert refusal(get) == (
            f"{NAME} cannot be fetched: no mirror is given and no address is known; "
            f"get the file with sha256 {'0' * 64} by hand and save it as {target}, or "
            "name a mirror that has it: --config mirror=DIR"
        )
        assert not target.parent.exists()

    def test_a_wrong_file_in_place_stays_and_is_named(self, server, get, target):
        target.parent.mkdir(parents=True)
        target.write_bytes(b"another")
        line = refusal(get, urls=[server.serve(PATH, HTML)])
        assert line.startswith(f"{NAME} cannot be fetched, {target} has another sha256: ")
        assert target.read_bytes() == b"another"

    @pytest.mark.parametrize("mirror", ["ftp://example.org/x", "s3://x", "file://host/x", "://"])
    def test_other_mirrors_are_refused(self, get, mirror):
        with pytest.raises(MirrorError, match=f"mirror {mirror} is neither a folder nor"):
            get(mirror=mirror)

    @pytest.mark.parametrize("url", ["ftp://example.org/x", "http://", "http://[::1", "http://*/x"])
    def test_an_address_that_is_none_leads_to_the_next(self, server, get, target, url):
        get(urls=[url, server.serve(PATH, PLAN)])
        assert_right(target)

    def test_certificates_that_are_not_there_are_said(self, get, monkeypatch, tmp_path):
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
        assert "Could not find a suitable TLS CA" in refusal(get, urls=["https://127.0.0.1:9/x"])

    def test_passwords_are_not_told(self, server, get, target, text):
        url = server.serve(PATH, CUT, replace(PLAN, cut=0)).replace("://", "://me:secret@")
        line = refusal(get, urls=[url, "http://me:secret@[::1"])
        told = line + text() + target.with_name(f".{target.name}.part.json").read_text()
        assert "secret" not in told
        assert server.seen[0].headers["authorization"].startswith("Basic ")


class TestPlace:
    def test_a_full_disk_is_said(self, server, get, target):
        target.parent.mkdir(parents=True)
        part = target.with_name(f".{target.name}.part")
        part.symlink_to("/dev/full")
        with pytest.raises(PlaceError) as caught:
            get(urls=[server.serve(PATH, PLAN)])
        reason = os.strerror(errno.ENOSPC)
        assert str(caught.value) == (
            f"cannot write {part}: {reason}; the file needs {SIZE} bytes there"
        )
        assert not target.exists()

    def test_also_for_a_copy(self, get, target, tmp_path):
        target.parent.mkdir(parents=True)
        target.with_name(f".{target.name}.copy").symlink_to("/dev/full")
        (tmp_path / "here").write_bytes(CONTENT)
        with pytest.raises(PlaceError, match=os.strerror(errno.ENOSPC)):
            get(urls=[str(tmp_path / "here")])
        assert leftovers(target) == []

    def test_a_folder_that_cannot_be_made_is_said(self, server, get, tmp_path):
        (tmp_path / "data").write_bytes(b"")
        with pytest.raises(PlaceError, match=rf"cannot write .*{NAME}: .*needs {SIZE} bytes"):
            get(urls=[server.serve(PATH, PLAN)])
        assert server.seen == []

    def test_a_folder_that_is_not_writable_is_said(self, server, get, target):
        target.parent.mkdir(parents=True)
        target.parent.chmod(0o500)
        try:
            if os.access(target.parent, os.W_OK):
                pytest.skip("may write everywhere")
            with pytest.raises(PlaceError, match=os.strerror(errno.EACCES)):
                get(urls=[server.serve(PATH, PLAN)])
        finally:
            target.parent.chmod(0o700)

    def test_a_folder_in_its_place_is_said(self, server, get, target):
        target.mkdir(parents=True)
        with pytest.raises(PlaceError, match=os.strerror(errno.EISDIR)):
            get(urls=[server.serve(PATH, PLAN)])


class TestLock:
    def test_two_at_once_fetch_once(self, server, get, target, text):
        url = server.serve(PATH, replace(PLAN, rate=600_000))
        patience = replace(IMPATIENT, report=0.1)
        results = []
        threads = [
            threading.Thread(target=lambda: results.append(get(urls=[url], patience=patience)))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert_right(target)
        assert sorted(result.source is None for result in results) == [False, True]
        assert server.sent == SIZE
        assert text().count("another process is fetching it; waiting") >= 2


class TestProgress:
    def test_the_log_has_a_line_now_and_then(self, server, get, text):
        url = server.serve(PATH, replace(PLAN, rate=600_000))
        get(urls=[url], patience=replace(IMPATIENT, report=0.1))
        assert f"{NAME}: {SIZE} bytes from {url}\n" in text()
        lines = re.findall(rf"{NAME}: (\d+) of {SIZE} bytes, \d+(?:\.\d+)?kB/s", text())
        assert len(lines) >= 2
        assert lines == sorted(lines, key=int)

    def test_a_terminal_has_a_bar_and_no_such_lines(self, server, get, monkeypatch, text):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        url = server.serve(PATH, replace(PLAN, rate=600_000))
        monkeypatch.setattr(tqdm, "monitor_interval", 0)  # a thread that would stay
        get(urls=[url], patience=replace(IMPATIENT, report=0.1))
        assert re.search(rf"{NAME}: +\d+%\|.*B/s", terminal.getvalue())
        assert "bytes, " not in text()


def test_servers_leave_nothing_running():
    before = threading.active_count()
    with running() as server:
        server.serve(PATH, PLAN)
    wait_until(lambda: threading.active_count() <= before)
