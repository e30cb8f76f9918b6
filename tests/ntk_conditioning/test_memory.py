"""The memory that is available is read from wherever the system says it."""

import pytest

from ntk_conditioning.memory import GB, available_bytes

AVAILABLE = 4_000_000 * 1024
FILES = {  # by version: folder of the groups, limit, usage, and the cached pages that are freed
    2: ("", "memory.max", "memory.current", "inactive_file"),
    1: ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
NO_LIMIT = 2**63 - 4096  # version 1


@pytest.fixture
def root(tmp_path):
    """A folder with a /proc as of a machine with 4 000 000 kB available."""
    (tmp_path / "proc/self").mkdir(parents=True)
    meminfo = "MemTotal:  8000000 kB\nMemAvailable:  4000000 kB\nHugePages_Total:       0\n"
    (tmp_path / "proc/meminfo").write_text(meminfo)
    return tmp_path


@pytest.fixture(params=FILES)
def version(request):
    return request.param


def control_group(root, version, path, *, limit, used, cached=0):
    """Write the files of the control group at a path."""
    place, *names, freed = FILES[version]
    folder = root / "sys/fs/cgroup" / place / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip(names, (limit, used), strict=True):
        (folder / name).write_text(f"{value}\n")
    stat = f"anon 5\nactive_file {GB}\nnot_{freed} {GB}\n{freed} {cached}\nslab 1\n"
    (folder / "memory.stat").write_text(stat)


def belongs_to(root, version, path):
    """Put this process into a control group, as the system tells it."""
    lines = {2: "0::{}\n", 1: "5:cpu,cpuacct:/elsewhere\n4:memory,hugetlb:{}\n0::/\n"}
    (root / "proc/self/cgroup").write_text(lines[version].format(path))


@pytest.mark.parametrize(
    ("limit", "used", "cached", "expected"),
    [
        (3 * GB, 1 * GB, 0, 2 * GB),
        (NO_LIMIT, 1 * GB, 0, AVAILABLE),
        (1 * GB, 2 * GB, 0, 0),  # a limit that was lowered later
        ("max", 1 * GB, 0, AVAILABLE),
        (3 * GB, 2 * GB, GB // 2, 1.5 * GB),  # pages that are freed on demand do not count
        (3 * GB, 2 * GB, 5 * GB, 3 * GB),
    ],
)
@pytest.mark.parametrize("path", ["", "job"])
def test_the_least_of_system_and_group_counts(root, version, limit, used, cached, expected, path):
    assert available_bytes(root) == AVAILABLE
    control_group(root, version, path, limit=limit, used=used, cached=cached)
    belongs_to(root, version, f"/{path}")
    assert available_bytes(root) == expected


@pytest.mark.parametrize("tightest", ["", "slurm", "slurm/job_7", "slurm/job_7/step_0"])
def test_any_group_around_the_process_but_no_other_may_be_the_tightest(root, version, tightest):
    for path in ("", "slurm", "slurm/job_7", "slurm/job_7/step_0"):
        limit = 2 * GB if path == tightest else NO_LIMIT
        control_group(root, version, path, limit=limit, used=GB // 2)
    for other in ("slurm/job_8", "elsewhere"):
        control_group(root, version, other, limit=GB, used=GB)
    belongs_to(root, version, "/slurm/job_7/step_0")
    assert available_bytes(root) == 1.5 * GB


@pytest.mark.parametrize("path", ["/docker/abc", "/../other", None])
def test_of_a_container_only_the_root_is_seen(root, version, path):
    """The path is the machine's, or leads out of the container, or cannot be read."""
    control_group(root, version, "", limit=3 * GB, used=GB)
    control_group(root, version, "../other", limit=GB, used=GB)
    if path:
        belongs_to(root, version, path)
    assert available_bytes(root) == 2 * GB


def test_files_may_be_missing(root):
    control_group(root, 2, "", limit=GB, used=0)
    for name, expected in (("memory.stat", GB), ("memory.current", AVAILABLE)):
        (root / "sys/fs/cgroup" / name).unlink()
        assert available_bytes(root) == expected
    (root / "proc/meminfo").unlink()  # then all of the machine's memory counts
    assert 10**8 < available_bytes(root) < 10**14
