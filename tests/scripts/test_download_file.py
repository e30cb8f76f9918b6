"""The program as it is started, killed and started again, and what it says in one line."""

import hashlib
import json
import random
import resource
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import download_file
import pytest

from tests.support.fault_server import Plan, running, wait_until

CONTENT = random.Random(0).randbytes(2_000_000)
SIZE = len(CONTENT)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PLAN = Plan(content=CONTENT)
NAME = "mnist/images.gz"
SCRIPT = Path(download_file.__file__)


@pytest.fixture
def server():
    with running() as server:
        yield server


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "data" / NAME


def options(output: Path, *more: str) -> list[str]:
    return ["--name", NAME, "--output", str(output), "--sha256", "0" * 64, SHA256, *more]


def start(output: Path, url: str, **more: object) -> subprocess.Popen[str]:
    command = [sys.executable, SCRIPT, *options(output, "--bytes", str(SIZE), "--urls", url)]
    environment = {"PYTHONPATH": str(SCRIPT.parents[1] / "src")}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, **more)


def test_a_receipt_says_what_is_in_place_wherever_it_came_from(output, tmp_path, capsys):
    mirror, receipt = tmp_path / "mirror", tmp_path / "receipts/images.json"
    (mirror / "mnist").mkdir(parents=True)
    (mirror / NAME).write_bytes(CONTENT)
    arguments = options(output, "--mirror", str(mirror), "--receipt", str(receipt))
    for last in (f"{SIZE} bytes from {mirror / NAME}, sha256 {SHA256}", "nothing to do"):
        assert download_file.main(arguments) == 0
        assert json.loads(receipt.read_text()) == {"name": NAME, "bytes": SIZE, "sha256": SHA256}
        receipt.unlink()
        captured = capsys.readouterr()
        assert captured.err.splitlines()[-1].endswith(last)
        assert captured.out == ""


def test_a_failure_is_one_line_without_a_receipt(output, tmp_path, capsys):
    receipt = tmp_path / "images.json"
    assert download_file.main(options(output, "--receipt", str(receipt))) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{NAME} cannot be fetched: no mirror is given and no address is known;" in line
    assert not receipt.exists()
    assert line.endswith("or name a mirror that has it: --config mirror=DIR")


def test_two_at_once_share_one_download(server, output):
    gate = threading.Event()
    url = server.serve("/x", replace(PLAN, gate=gate))
    with start(output, url) as first:
        wait_until(lambda: server.seen)
        with start(output, url) as second:
            time.sleep(0.5)  # it waits for the first
            assert second.poll() is None
            gate.set()
            assert "is in place with the right sha256" in second.communicate()[1]
        first.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert output.read_bytes() == CONTENT
    assert len(server.seen) == 1


def test_a_full_disk_is_one_line_and_costs_nothing(server, output):
    small = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    url = server.serve("/x", PLAN)
    with start(output, url, preexec_fn=small) as process:
        line = process.communicate()[1].splitlines()[-1]
    assert process.returncode == 2
    part, reason = output.with_name(".images.gz.part"), "File too large; the file needs"
    assert line == f"download_file: error: cannot write {part}: {reason} {SIZE} bytes there"
    with start(output, url) as process:
        process.communicate()
    assert output.read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=1000000-"


def test_kills_lose_nothing_at_any_point(server, output):
    """Before anything, when a request is there and unanswered, and after any number of bytes."""
    part, size = output.with_name(".images.gz.part"), 0
    for more in (None, 0, 1, 70_000, None, 0, 99_999):
        url = server.serve("/x", replace(PLAN, hang=more, silent=more == 0))
        asked = len(server.seen)
        with start(output, url) as process:
            if more == 0:
                wait_until(lambda: len(server.seen) > asked)  # noqa: B023
            elif more:
                wait_until(lambda: part.exists() and part.stat().st_size == size + more)  # noqa: B023
            process.kill()
        before, size = size, part.stat().st_size if part.exists() else 0
        assert size >= before
    server.serve("/x", PLAN)
    with start(output, url) as process:
        process.communicate()
    assert process.returncode == 0
    assert output.read_bytes() == CONTENT
    assert server.ranges[-1] == f"bytes={size}-"
    assert {path.suffix for path in output.parent.iterdir()} == {".gz", ".lock"}
