"""Files are whole or not there; memory is what the system says; work in threads is all done."""

import os
import tempfile
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ntk_conditioning import files, tables, threads
from ntk_conditioning.files import FullDiskError, atomic, scratch_folder
from ntk_conditioning.memory import GB, available_bytes


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


AVAILABLE = 4_000_000 * 1024
MEMINFO = "MemTotal:  8000000 kB\nMemAvailable:  4000000 kB\nHugePages_Total:       0\n"
#: By version: folder of the groups, limit, usage, freeable pages, and what says a process's group.
VERSIONS = {2: ("", "memory.max", "memory.current", "inactive_file", "0::{}\n")}
VERSIONS[1] = "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
VERSIONS[1] += ("5:cpu,cpuacct:/elsewhere\n4:memory,hugetlb:{}\n0::/\n",)
LIMITS = st.sampled_from([GB, 3 * GB, 2**63 - 4096, "max"])  # the third is none in version 1
SIZES = st.tuples(LIMITS, st.integers(0, 4 * GB), st.integers(0, 5 * GB))  # limit, use and cache
NAMES = ("", "job", "slurm", "slurm/job_7", "slurm/job_7/step_0", "slurm/job_8", "../other")
GROUPS = st.dictionaries(st.sampled_from(NAMES), SIZES)
#: The path may be the machine's, lead out of the container, or not be readable.
OWN = st.sampled_from(["/", "/job", "/slurm/job_7/step_0", "/docker/abc", "/../other", None])


def write_groups(root, version, own, groups):
    place, *names, freed, belongs_to = VERSIONS[version]
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(MEMINFO)
    if own:
        (root / "proc/self/cgroup").write_text(belongs_to.format(own))
    for path, (*values, cached) in groups.items():
        folder = root / "sys/fs/cgroup" / place / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in zip(names, values, strict=True):
            (folder / name).write_text(f"{value}\n")
        stat = f"anon 5\nactive_file {GB}\nnot_{freed} {GB}\n{freed} {cached}\nslab 1\n"
        (folder / "memory.stat").write_text(stat)


@settings(max_examples=200)
@given(st.sampled_from([*VERSIONS]), OWN, GROUPS)
def test_the_least_of_system_and_groups_counts(tmp_path_factory, version, own, groups):
    """Of this process's group and any around it, less the pages that are freed on demand."""
    write_groups(root := tmp_path_factory.mktemp("root"), version, own, groups)
    around = PurePosixPath(own if own and ".." not in own else "/")
    sizes = [groups[path] for path in groups if around.is_relative_to(f"/{path}")]
    left = [limit - max(0, used - cached) for limit, used, cached in sizes if limit != "max"]
    assert available_bytes(root) == max(0, min([AVAILABLE, *left]))


def test_files_may_be_missing(tmp_path):
    write_groups(tmp_path, 2, "/", {"": (GB, 0, 0)})
    for name, expected in (("memory.stat", GB), ("memory.current", AVAILABLE)):
        (tmp_path / "sys/fs/cgroup" / name).unlink()
        assert available_bytes(tmp_path) == expected
    (tmp_path / "proc/meminfo").unlink()  # then all of the machine's memory counts
    assert 10**8 < available_bytes(tmp_path) < 10**14


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("at_once", [1, 3])
def test_work_in_threads_is_all_done_or_raises_and_torch_has_as_many_as_before(at_once):
    torch.set_num_threads(2)
    done: list[tuple[int, bool]] = []
    threads.each(lambda piece: done.append((piece, torch.is_grad_enabled())), range(100), at_once)
    assert sorted(done) == [(piece, False) for piece in range(100)]

    def work(piece: int) -> None:
        if piece == 3:
            raise MemoryError("piece 3")

    with pytest.raises(MemoryError, match="piece 3"):
        threads.each(work, range(100), at_once)
    assert torch.get_num_threads() == 2
