"""Files are whole or not there, and nothing else is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ntk_conditioning.errors import UserError
from ntk_conditioning.files import (
    ChecksumError,
    MissingFileError,
    atomic,
    require_sha256,
    sha256,
)

# FIPS 180-4's example message and its digest.
ABC = b"abc"
ABC_SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class TestAtomic:
    def test_makes_the_folder_and_leaves_one_file(self, tmp_path):
        target = tmp_path / "a" / "b" / "table.parquet"
        with atomic(target) as temporary:
            assert temporary.parent == target.parent
            assert temporary.suffix == ".parquet"
            temporary.write_bytes(ABC)
            assert not target.exists()
        assert target.read_bytes() == ABC
        assert names(target.parent) == ["table.parquet"]

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    def test_a_failure_keeps_the_old_file_and_nothing_else(self, tmp_path, error):
        target = tmp_path / "table.csv"
        target.write_text("old")

        def fail() -> None:
            with atomic(target) as temporary:
                temporary.write_text("half of the n")
                raise error

        with pytest.raises(error):
            fail()
        assert target.read_text() == "old"
        assert names(tmp_path) == ["table.csv"]

    def test_two_writers_at_once_do_not_mix(self, tmp_path):
        target = tmp_path / "table.csv"
        with atomic(target) as one:
            with atomic(target) as other:
                one.write_text("one")
                other.write_text("other")
            assert target.read_text() == "other"
        assert target.read_text() == "one"

    def test_permissions_are_those_of_a_plain_write(self, tmp_path):
        before = os.umask(0o027)
        try:
            with atomic(tmp_path / "shared.csv") as temporary:
                temporary.write_text("x")
        finally:
            os.umask(before)
        assert (tmp_path / "shared.csv").stat().st_mode & 0o777 == 0o640

    def test_a_block_that_writes_nothing_is_an_error(self, tmp_path):
        with pytest.raises(FileNotFoundError), atomic(tmp_path / "x"):
            pass
        assert names(tmp_path) == []


class TestChecksums:
    def test_sha256_of_the_standards_example(self, tmp_path):
        (tmp_path / "abc").write_bytes(ABC)
        assert sha256(tmp_path / "abc") == ABC_SHA256
        require_sha256(tmp_path / "abc", ["0" * 64, ABC_SHA256])

    def test_another_content_is_named(self, tmp_path):
        (tmp_path / "abd").write_bytes(b"abd")
        with pytest.raises(ChecksumError, match=f"abd has sha256 .*not {ABC_SHA256}; .*fetch it"):
            require_sha256(tmp_path / "abd", [ABC_SHA256])

    @pytest.mark.parametrize(
        ("name", "problem"), [("absent", "does not exist"), (".", "not a file")]
    )
    def test_no_file_is_named(self, tmp_path, name, problem):
        with pytest.raises(MissingFileError, match=problem) as caught:
            sha256(tmp_path / name)
        assert isinstance(caught.value, UserError)
