"""Files are whole or not there, and nothing else is left behind."""

import os
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ntk_conditioning import files, tables
from ntk_conditioning.files import FullDiskError, atomic, scratch_folder


def test_a_new_file_has_the_permissions_of_a_plain_write_and_stands_alone(tmp_path):
    target = tmp_path / "a" / "b" / "table.parquet"
    before = os.umask(0o027)
    try:
        with atomic(target) as temporary:
            assert (temporary.parent, temporary.suffix) == (target.parent, ".parquet")
            temporary.write_text("new")
            assert not target.exists()
    finally:
        os.umask(before)
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]
    assert target.stat().st_mode & 0o777 == 0o640
    (link := tmp_path / "link.parquet").symlink_to(target)
    files.write_text(link, "newer")
    assert (link.is_symlink(), target.read_text()) == (True, "newer")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_keeps_the_old_file_and_nothing_else(tmp_path, error):
    target = tmp_path / "table.csv"
    target.write_text("old")
    with pytest.raises(error), atomic(target) as temporary:  # noqa: PT012
        temporary.write_text("half of the n")
        raise error
    with pytest.raises(FileNotFoundError), atomic(target):
        pass  # a block that writes nothing
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def write_npz(target):
    with atomic(target) as temporary, temporary.open("wb") as stream:
        np.savez(stream, x=np.zeros(10_000))


WRITERS = [partial(files.write_text, text="new"), partial(tables.write, table="frames", data=[])]


@pytest.mark.parametrize("write", [*WRITERS, write_npz])
def test_a_full_disk_is_one_line_and_keeps_the_old_file(tmp_path, monkeypatch, write):
    target = tmp_path / "table.parquet"
    target.write_text("old")
    monkeypatch.setattr("secrets.token_hex", lambda _: "0")
    (tmp_path / ".table-0.parquet").symlink_to("/dev/full")
    with pytest.raises(FullDiskError, match=r"^cannot write .*table.parquet: No space left on"):
        write(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_for_temporary_files_is_one_line():
    line = f"cannot write {tempfile.gettempdir()}: No space left on device; make room or set TMPDIR"
    with pytest.raises(FullDiskError, match=f"^{line}, and run again$"), scratch_folder() as folder:
        Path("/dev/full").write_text("more")
    assert not folder.exists()


def test_two_writers_at_once_do_not_mix(tmp_path):
    target = tmp_path / "table.csv"
    with atomic(target) as one:
        with atomic(target) as other:
            one.write_text("one")
            other.write_text("other")
        assert target.read_text() == "other"
    assert target.read_text() == "one"
