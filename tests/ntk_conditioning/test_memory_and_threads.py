"""Available memory is read from wherever the system says it; work in threads is all done."""

from pathlib import PurePosixPath

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ntk_conditioning import threads
from ntk_conditioning.memory import GB, available_bytes

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
