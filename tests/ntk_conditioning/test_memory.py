"""Memory is read from wherever the system tells it, and what does not fit is told beforehand."""

from __future__ import annotations

import re

import pytest

from ntk_conditioning import memory
from ntk_conditioning.errors import UserError
from ntk_conditioning.memory import GB, NotEnoughMemoryError, available_bytes, kernel_bytes, require

MEMINFO = """\
MemTotal:        8000000 kB
MemFree:             100 kB
MemAvailable:    4000000 kB
HugePages_Total:       0
"""
AVAILABLE = 4_000_000 * 1024


@pytest.fixture
def root(tmp_path):
    """A folder with a /proc as of a machine with 4 000 000 kB available."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(MEMINFO)
    return tmp_path


FILES = {  # folder of the groups, limit, usage, and the cached pages that are given back
    2: ("", "memory.max", "memory.current", "inactive_file"),
    1: ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
NO_LIMIT = 2**63 - 4096  # version 1
BOTH = pytest.mark.parametrize("version", FILES)


def control_group(root, path="", *, limit, used, version=2):
    """Write the files of the control group at a path."""
    place, *names, _ = FILES[version]
    folder = root / "sys/fs/cgroup" / place / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip(names, (limit, used), strict=True):
        (folder / name).write_text(f"{value}\n")
    return folder


def belongs_to(root, path, *, version=2):
    """Put this process into a control group, as the system tells it."""
    lines = {2: "0::{}\n", 1: "5:cpu,cpuacct:/elsewhere\n4:memory,hugetlb:{}\n0::/\n"}
    (root / "proc/self").mkdir()
    (root / "proc/self/cgroup").write_text(lines[version].format(path))


def test_without_a_control_group_the_system_tells(root):
    assert available_bytes(root) == AVAILABLE


@BOTH
@pytest.mark.parametrize(
    ("limit", "used", "expected"),
    [
        (3 * GB, 1 * GB, 2 * GB),
        (90 * GB, 1 * GB, AVAILABLE),
        (NO_LIMIT, 1 * GB, AVAILABLE),
        (1 * GB, 2 * GB, 0),  # a limit that was lowered later
        ("max", 1 * GB, AVAILABLE),
    ],
)
@pytest.mark.parametrize("path", ["", "job"])
def test_the_least_of_system_and_control_group_counts(root, version, limit, used, expected, path):
    control_group(root, path, limit=limit, used=used, version=version)
    belongs_to(root, f"/{path}", version=version)
    assert available_bytes(root) == expected


@BOTH
@pytest.mark.parametrize("tightest", ["", "slurm", "slurm/job_7", "slurm/job_7/step_0"])
def test_any_group_around_the_own_one_may_be_the_tightest(root, version, tightest):
    for path in ("", "slurm", "slurm/job_7", "slurm/job_7/step_0"):
        limit = 2 * GB if path == tightest else NO_LIMIT
        control_group(root, path, limit=limit, used=GB // 2, version=version)
    belongs_to(root, "/slurm/job_7/step_0", version=version)
    assert available_bytes(root) == 1.5 * GB


@BOTH
def test_the_groups_of_others_do_not_count(root, version):
    control_group(root, "slurm/job_8", limit=GB, used=GB, version=version)
    control_group(root, "elsewhere", limit=GB, used=GB, version=version)
    control_group(root, "slurm/job_7", limit=3 * GB, used=GB, version=version)
    belongs_to(root, "/slurm/job_7", version=version)
    assert available_bytes(root) == 2 * GB


@BOTH
@pytest.mark.parametrize("told", ["/docker/abc", "/../other", None])
def test_of_a_container_only_the_root_is_found(root, version, told):
    """The path is the machine's, or leads out of the container, or cannot be read."""
    control_group(root, limit=3 * GB, used=GB, version=version)
    control_group(root, "../other", limit=GB, used=GB, version=version)
    if told:
        belongs_to(root, told, version=version)
    assert available_bytes(root) == 2 * GB


@BOTH
@pytest.mark.parametrize(
    ("cached", "expected"), [(GB // 2, 1.5 * GB), (0, 1 * GB), (5 * GB, 3 * GB)]
)
def test_cached_pages_that_are_given_back_do_not_count_as_used(root, version, cached, expected):
    folder = control_group(root, limit=3 * GB, used=2 * GB, version=version)
    name = FILES[version][-1]
    stat = f"anon 5\nactive_file {GB}\nnot_{name} {GB}\n{name} {cached}\nslab 1\n"
    (folder / "memory.stat").write_text(stat)
    assert available_bytes(root) == expected


def test_a_control_group_without_a_usage_is_passed_over(root):
    control_group(root, limit=GB, used=0)
    (root / "sys/fs/cgroup/memory.current").unlink()
    assert available_bytes(root) == AVAILABLE


def test_without_proc_all_of_the_memory_counts(tmp_path):
    assert 10**8 < available_bytes(tmp_path) < 10**14


def test_a_larger_kernel_needs_more():
    sizes = [1, 2, 100, 1023, 1024, 1025, 5000, 100_000]
    needed = [kernel_bytes(n, itemsize=8, row_bytes=1000) for n in sizes]
    assert needed == sorted(set(needed))
    assert all(size > 8 * n * n for size, n in zip(needed, sizes, strict=True))


def test_copies_entries_and_rows_enter():
    n, usual = 3000, {"itemsize": 8, "row_bytes": 1000}
    base = kernel_bytes(n, **usual)
    assert kernel_bytes(n, **usual, copies=2) - base == 8 * n * n
    assert base - kernel_bytes(n, **usual | {"itemsize": 4}) == 4 * n * n
    assert kernel_bytes(n, **usual | {"row_bytes": 2000}) > base


def needed(n, itemsize):
    return kernel_bytes(n, itemsize=itemsize, row_bytes=itemsize * 784)


@pytest.mark.parametrize("n", [5000, 100_000])
@pytest.mark.parametrize("short_by", [1, 10**8])
def test_what_does_not_fit_is_told_with_what_does(n, short_by):
    available = needed(n, 8) - short_by
    with pytest.raises(NotEnoughMemoryError) as caught:
        require(n, needed, itemsize=8, available=available, remedy="lower kernel_size")
    message = str(caught.value)
    assert isinstance(caught.value, UserError)
    assert "\n" not in message
    assert f"a kernel of {n} samples in float64 needs {needed(n, 8) / GB:.1f} GB" in message
    assert f"and {available / GB:.1f} GB are available" in message
    assert message.endswith(": lower kernel_size")
    double = int(re.search(r"at most (\d+) samples fit", message)[1])
    assert needed(double, 8) <= available < needed(double + 1, 8)
    single = int(re.search(r"or (\d+) in float32", message)[1])
    assert needed(single, 4) <= available
    assert double < single == n  # as many as were asked for, or the largest that fits


def test_what_does_not_fit_in_float32_either_is_told():
    with pytest.raises(NotEnoughMemoryError) as caught:
        require(100_000, needed, itemsize=8, available=10 * GB, remedy="none")
    single = int(re.search(r"or (\d+) in float32", str(caught.value))[1])
    assert needed(single, 4) <= 10 * GB < needed(single + 1, 4)


@pytest.mark.parametrize(("itemsize", "single"), [(8, False), (4, True)])
def test_float32_is_offered_only_where_it_helps(itemsize, single):
    with pytest.raises(NotEnoughMemoryError) as caught:
        require(10**5, needed, itemsize=itemsize, available=GB, remedy="none", single=single)
    assert " in float32:" not in str(caught.value)
    assert f"in float{8 * itemsize} needs" in str(caught.value)


def test_where_not_even_one_sample_fits_none_is_offered():
    with pytest.raises(NotEnoughMemoryError, match=r"at most 0 samples fit, or 0 in float32"):
        require(10, needed, itemsize=8, available=memory.PROCESS - 1, remedy="none")


def test_a_need_that_jumps_down_is_judged_where_it_counts():
    """From `full_spectrum_below` samples on one copy of a kernel is enough, below it are two."""

    def jumping(n, itemsize):
        return kernel_bytes(n, itemsize=itemsize, row_bytes=0, copies=1 if n >= 20_000 else 2)

    available = jumping(20_000, 8)
    assert require(20_000, jumping, itemsize=8, available=available, remedy="none") is None
    with pytest.raises(NotEnoughMemoryError) as caught:
        require(20_001, jumping, itemsize=8, available=available, remedy="none", single=False)
    offered = int(re.search(r"at most (\d+) samples", str(caught.value))[1])
    assert jumping(offered, 8) <= available
