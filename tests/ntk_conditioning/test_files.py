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
    """Two writers at once do not mix."""
    target, before = tmp_path / "a" / "b" / "table.parquet", os.umask(0o027)
    try:
        with atomic(target) as one:
            assert (one.parent, one.suffix) == (target.parent, ".parquet")
            with atomic(target) as other:
                one.write_text("one")
                other.write_text("other")
                assert not target.exists()
            assert target.read_text() == "other"
    finally:
        os.umask(before)
    assert target.read_text() == "one"
    assert list(target.parent.iterdir()) == [target]
    assert target.stat().st_mode & 0o777 == 0o640
    (link := tmp_path / "link.parquet").symlink_to(target)
    files.write_text(link, "newer")
    assert (link.is_symlink(), target.read_text()) == (True, "newer")


@pytest.fixture
def old(tmp_path):
    target = tmp_path / "table.parquet"
    target.write_text("old")
    yield target
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_keeps_the_old_file_and_nothing_else(old, error):
    with pytest.raises(error), atomic(old) as temporary:  # noqa: PT012
        temporary.write_text("half of the n")
        raise error
    with pytest.raises(FileNotFoundError), atomic(old):
        pass  # a block that writes nothing


def write_npz(target):
    with atomic(target) as temporary, temporary.open("wb") as stream:
        np.savez(stream, x=np.zeros(10_000))


WRITERS = [partial(files.write_text, text="new"), partial(tables.write, table="frames", data=[])]


@pytest.mark.parametrize("write", [*WRITERS, write_npz])
def test_a_full_disk_is_one_line_and_keeps_the_old_file(old, monkeypatch, write):
    monkeypatch.setattr("secrets.token_hex", lambda _: "0")
    old.with_name(".table-0.parquet").symlink_to("/dev/full")
    with pytest.raises(FullDiskError, match=r"^cannot write .*table.parquet: No space left on"):
        write(old)


def test_a_full_disk_for_temporary_files_is_one_line():
    line = f"cannot write {tempfile.gettempdir()}: No space left on device; make room or set TMPDIR"
    with pytest.raises(FullDiskError, match=f"^{line}, and run again$"), scratch_folder() as folder:
        Path("/dev/full").write_text("more")
    assert not folder.exists()
