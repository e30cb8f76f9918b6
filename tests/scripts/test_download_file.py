"""The real program brings a file into place, or says in one line why it cannot."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import download_file
import pytest

CONTENT = b"0, 1, 2"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "mnist/images.gz"
URL = "https://example.org/images.gz"


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folder = tmp_path / "a mirror"
    (folder / "mnist").mkdir(parents=True)
    (folder / NAME).write_bytes(CONTENT)
    return folder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "data" / NAME


def run(output: Path, *options: str) -> int:
    return download_file.main(
        ["--name", NAME, "--output", str(output), "--sha256", "0" * 64, SHA256, *options]
    )


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the only line on stderr; nothing else may be printed."""
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


@pytest.mark.parametrize("address", ["{0}", "file://{1}", "file://localhost{1}"])
def test_a_mirror_is_a_folder_or_its_address(mirror, output, capsys, address):
    given = address.format(mirror, str(mirror).replace(" ", "%20"))
    assert run(output, "--mirror", given) == 0
    assert output.read_bytes() == CONTENT
    assert f"{len(CONTENT)} bytes from {mirror / NAME}, sha256 {SHA256}" in one_line(capsys)


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
    line = one_line(capsys)
    assert line.startswith(f"download_file: error: {mirror / NAME} has sha256 ")
    assert SHA256 in line
    assert list(output.parent.iterdir()) == []


def test_without_a_mirror_it_says_how_to_bring_the_file_by_hand(output, capsys):
    assert run(output, "--urls", URL, "https://example.com/x") == 2
    assert one_line(capsys) == (
        f"download_file: error: {NAME} is not here: {output} does not exist and no mirror is "
        f"given; download {URL} or https://example.com/x and save it as {output}"
    )
    assert not output.parent.exists()


def test_a_mirror_without_the_file_and_a_wrong_file_in_place_are_named(mirror, output, capsys):
    (mirror / NAME).unlink()
    output.parent.mkdir(parents=True)
    output.write_bytes(b"another")
    assert run(output, "--mirror", str(mirror)) == 2
    line = one_line(capsys)
    assert f"{output} has another sha256 and the mirror has no file {mirror / NAME}" in line
    assert f"get it from its authors and save it as {output}" in line
    assert output.read_bytes() == b"another"


@pytest.mark.parametrize("mirror", ["https://example.org/data", "file://host/data"])
def test_other_mirrors_are_refused(output, capsys, mirror):
    assert run(output, "--mirror", mirror) == 2
    assert f"mirror {mirror} is neither a folder nor" in one_line(capsys)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "the following arguments are required: --name, --output, --sha256"),
        (["--name", "x", "--output", "y", "--sha256"], "argument --sha256: expected at least one"),
        (["--nam", "x"], "the following arguments are required: --name"),
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

    monkeypatch.setattr(download_file.files, "copy_verified", defect)
    with pytest.raises(ZeroDivisionError):
        run(output, "--mirror", str(mirror))


def test_logging_is_as_before_after_a_call(mirror, output):
    package = logging.getLogger("ntk_conditioning")
    before = (list(package.handlers), package.level)
    run(output, "--mirror", str(mirror))
    assert (package.handlers, package.level) == before
