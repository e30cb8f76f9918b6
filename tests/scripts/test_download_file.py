"""The real program brings a file into place, or says in one line why it cannot."""

from __future__ import annotations

import hashlib
import json
import logging
import random
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import download_file
import pytest

from tests.fault_server import Plan, running, wait_until

CONTENT = b"0, 1, 2"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "mnist/images.gz"
PATH = "/images.gz"
SCRIPT = Path(download_file.__file__)


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folder = tmp_path / "a mirror"
    (folder / "mnist").mkdir(parents=True)
    (folder / NAME).write_bytes(CONTENT)
    return folder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "data" / NAME


@pytest.fixture
def server():
    with running() as server:
        yield server


def run(output: Path, *options: str) -> int:
    return download_file.main(
        ["--name", NAME, "--output", str(output), "--sha256", "0" * 64, SHA256, *options]
    )


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what is on stderr; nothing else may be printed."""
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = lines(capsys)
    return line


def leftovers(output: Path) -> list[str]:
    return sorted(path.name for path in output.parent.iterdir() if path.suffix != ".lock")


@pytest.mark.parametrize("address", ["{0}", "file://{1}", "file://localhost{1}"])
def test_a_mirror_is_a_folder_or_its_address(mirror, output, capsys, address):
    given = address.format(mirror, str(mirror).replace(" ", "%20"))
    assert run(output, "--mirror", given) == 0
    assert output.read_bytes() == CONTENT
    begun, done = lines(capsys)
    assert begun.endswith(f"{NAME}: {len(CONTENT)} bytes from {mirror / NAME}")
    assert f"{len(CONTENT)} bytes from {mirror / NAME}, sha256 {SHA256}" in done


def test_a_mirror_may_be_a_server(server, output, capsys):
    url = server.serve(f"/base/{NAME}", Plan(content=CONTENT))
    assert run(output, "--mirror", server.url("/base/"), "--bytes", str(len(CONTENT))) == 0
    assert output.read_bytes() == CONTENT
    assert f"{len(CONTENT)} bytes from {url}, sha256 {SHA256}" in lines(capsys)[-1]


def test_a_file_in_place_is_left_alone(mirror, output, capsys):
    assert run(output, "--mirror", str(mirror)) == 0
    capsys.readouterr()
    before = output.stat()
    (mirror / NAME).unlink()
    assert run(output, "--mirror", str(mirror)) == 0
    assert "is in place with the right sha256, nothing to do" in one_line(capsys)
    assert output.stat().st_mtime_ns == before.st_mtime_ns
    assert output.stat().st_ino == before.st_ino


def test_a_damaged_file_in_place_is_replaced(mirror, output):
    output.parent.mkdir(parents=True)
    output.write_bytes(b"half")
    assert run(output, "--mirror", str(mirror)) == 0
    assert output.read_bytes() == CONTENT


def test_a_damaged_mirror_leaves_nothing(mirror, output, capsys):
    (mirror / NAME).write_bytes(CONTENT[:-1])
    assert run(output, "--mirror", str(mirror)) == 2
    line = lines(capsys)[-1]
    assert line.startswith(f"download_file: error: {NAME} cannot be fetched: {mirror / NAME}: has ")
    assert leftovers(output) == []


def test_a_mirror_s_subset_leads_to_the_official_file(server, mirror, output, capsys):
    (mirror / NAME).write_bytes(CONTENT[:-1])
    url = server.serve(PATH, Plan(content=CONTENT))
    assert run(output, "--mirror", str(mirror), "--urls", url) == 0
    assert output.read_bytes() == CONTENT
    assert any(f"{mirror / NAME}: has another file, of 6 bytes" in line for line in lines(capsys))


def test_without_a_source_it_says_how_to_bring_the_file_by_hand(output, capsys):
    assert run(output, "--mirror", "", "--urls") == 2
    assert one_line(capsys) == (
        f"download_file: error: {NAME} cannot be fetched: no mirror is given and no address is "
        f"known; get the file with sha256 {'0' * 64} by hand and save it as {output}, or "
        "name a mirror that has it: --config mirror=DIR"
    )
    assert not output.parent.exists()


def test_a_mirror_without_the_file_and_a_wrong_file_in_place_are_named(mirror, output, capsys):
    (mirror / NAME).unlink()
    output.parent.mkdir(parents=True)
    output.write_bytes(b"another")
    assert run(output, "--mirror", str(mirror)) == 2
    line = lines(capsys)[-1]
    assert f"{output} has another sha256: {mirror / NAME}: no such file; get the file" in line
    assert output.read_bytes() == b"another"


@pytest.mark.parametrize("mirror", ["ftp://example.org/data", "file://host/data"])
def test_other_mirrors_are_refused(output, capsys, mirror):
    assert run(output, "--mirror", mirror) == 2
    assert f"mirror {mirror} is neither a folder nor" in one_line(capsys)


def test_a_failure_of_all_sources_is_one_line_about_each(server, output, capsys):
    silent = server.serve("/silent", Plan(content=CONTENT, silent=True))
    lost = server.url("/lost")
    options = ["--attempts", "1", "--timeout", "1", "--urls", silent, lost]
    assert run(output, *options) == 2
    assert lines(capsys)[-1] == (
        f"download_file: error: {NAME} cannot be fetched: {silent}: no answer within 1 s "
        f"(attempts: 1); {lost}: 404 Not Found; "
        f"get the file with sha256 {'0' * 64} by hand and save it as {output}, or "
        "name a mirror that has it: --config mirror=DIR"
    )


@pytest.mark.parametrize("again", [False, True])
def test_a_receipt_says_what_is_in_place_whence_ever_it_came(mirror, output, tmp_path, again):
    receipt = tmp_path / "receipts" / "images.json"
    for _ in range(1 + again):
        assert run(output, "--mirror", str(mirror), "--receipt", str(receipt)) == 0
    expected = {"name": NAME, "bytes": len(CONTENT), "sha256": SHA256}
    assert json.loads(receipt.read_text()) == expected


def test_a_receipt_is_not_given_for_a_failure(output, tmp_path):
    assert run(output, "--receipt", str(tmp_path / "images.json")) == 2
    assert not (tmp_path / "images.json").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "the following arguments are required: --name, --output, --sha256"),
        (["--name", "x", "--output", "y", "--sha256"], "argument --sha256: expected at least one"),
        (["--nam", "x"], "the following arguments are required: --name"),
        (["--attempts", "0"], "argument --attempts: 0 is not above zero"),
    ],
)
def test_a_wrong_command_line_is_one_line(capsys, arguments, problem):
    assert download_file.main(arguments) == 2
    line = one_line(capsys)
    assert line.startswith(f"download_file: error: {problem}")
    assert line.endswith("(see download_file.py --help)")


def test_defects_of_ours_keep_their_traceback(mirror, output, monkeypatch):
    def defect(*_arguments, **_options):
        raise ZeroDivisionError

    monkeypatch.setattr(download_file.downloads, "fetch", defect)
    with pytest.raises(ZeroDivisionError):
        run(output, "--mirror", str(mirror))


def test_logging_is_as_before_after_a_call(mirror, output):
    package = logging.getLogger("ntk_conditioning")
    before = (list(package.handlers), package.level)
    run(output, "--mirror", str(mirror))
    assert (package.handlers, package.level) == before


class TestProcesses:
    """The program as it is started, ended, and started again."""

    content = random.Random(0).randbytes(6_000_000)
    plan = Plan(content=content)

    def start(self, output: Path, url: str, **options: object) -> subprocess.Popen[str]:
        digest = hashlib.sha256(self.content).hexdigest()
        return subprocess.Popen(
            [
                *(sys.executable, SCRIPT, "--name", NAME, "--output", output),
                *("--sha256", digest, "--bytes", str(len(self.content)), "--urls", url),
            ],
            env={"PYTHONPATH": str(SCRIPT.parents[1] / "src")},
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def test_two_at_once_fetch_once(self, server, output):
        url = server.serve(PATH, replace(self.plan, rate=8_000_000))
        with self.start(output, url) as first, self.start(output, url) as second:
            told = [process.communicate()[1] for process in (first, second)]
        assert (first.returncode, second.returncode) == (0, 0)
        assert output.read_bytes() == self.content
        assert server.sent == len(self.content)
        assert len(server.seen) == 1
        assert sum("another process is fetching it; waiting" in text for text in told) == 1
        assert sum("is in place with the right sha256" in text for text in told) == 1

    def test_a_file_that_the_disk_does_not_take_is_one_line(self, server, output):
        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

        url = server.serve(PATH, self.plan)
        with self.start(output, url, preexec_fn=small) as process:
            line = process.communicate()[1].splitlines()[-1]
        assert process.returncode == 2
        part = output.with_name(".images.gz.part")
        assert line == (
            f"download_file: error: cannot write {part}: File too large; "
            f"the file needs {len(self.content)} bytes there"
        )
        # Room was made: what had come is continued.
        with self.start(output, url) as process:
            process.communicate()
        assert output.read_bytes() == self.content
        assert server.seen[-1].range == "bytes=1000000-"

    @pytest.mark.slow
    def test_fifty_kills_lose_nothing(self, server, output):
        chance = random.Random(0)
        url = server.serve(PATH, replace(self.plan, rate=800_000))
        part = output.with_name(".images.gz.part")
        sizes = [0]
        for number in range(50):
            asked = len(server.seen)
            process = self.start(output, url)
            with process:
                if number % 5:  # else at any point of the start, too
                    wait_until(lambda asked=asked: len(server.seen) > asked)
                time.sleep(chance.uniform(0, 0.1))
                process.kill()
            sizes.append(part.stat().st_size if part.exists() else 0)
            assert not output.exists()
        assert sizes == sorted(sizes)
        assert len(set(sizes)) > 30
        server.serve(PATH, self.plan)
        with self.start(output, url) as process:
            process.communicate()
        assert process.returncode == 0
        assert output.read_bytes() == self.content
        assert leftovers(output) == [output.name]
        assert server.seen[-1].range == f"bytes={sizes[-1]}-"
        # What was on its way when the process died is all that was sent twice.
        assert server.sent < len(self.content) + 50 * 2**15
        assert server.seen[-1].sent == len(self.content) - sizes[-1]
