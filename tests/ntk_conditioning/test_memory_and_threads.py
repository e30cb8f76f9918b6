"""Available memory is read from wherever the system says it; work in threads is all done."""

import pytest
import torch

from ntk_conditioning import threads
from ntk_conditioning.memory import GB, available_bytes

AVAILABLE = 4_000_000 * 1024
FILES = {  # by version: folder of the groups, limit, usage, and the cached pages that are freed
    2: ("", "memory.max", "memory.current", "inactive_file"),
    1: ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
BELONGS_TO = {2: "0::{}\n", 1: "5:cpu,cpuacct:/elsewhere\n4:memory,hugetlb:{}\n0::/\n"}
NO_LIMIT = 2**63 - 4096  # version 1
#: Limit, use and cache of a group, and what is available.
SIZES = [
    (3 * GB, 1 * GB, 0, 2 * GB),
    (NO_LIMIT, 1 * GB, 0, AVAILABLE),
    (1 * GB, 2 * GB, 0, 0),  # a limit that was lowered later
    ("max", 1 * GB, 0, AVAILABLE),
    (3 * GB, 2 * GB, GB // 2, 1.5 * GB),  # pages that are freed on demand do not count
    (3 * GB, 2 * GB, 5 * GB, 3 * GB),
]
AROUND = dict.fromkeys(("", "slurm", "slurm/job_7", "slurm/job_7/step_0"), (NO_LIMIT, GB // 2, 0))
OTHERS = dict.fromkeys(("slurm/job_8", "elsewhere"), (GB, GB, 0))
CONTAINER = {"": (3 * GB, GB, 0), "../other": (GB, GB, 0)}
#: The group of this process, all groups, and what is available.
SCENES = [
    *((f"/{own}", {own: sizes}, left) for own in ("", "job") for *sizes, left in SIZES),
    # any group around the process may be the tightest, but no other
    *(
        ("/slurm/job_7/step_0", AROUND | OTHERS | {tightest: (2 * GB, GB // 2, 0)}, 1.5 * GB)
        for tightest in AROUND
    ),
    # the path is the machine's, or leads out of the container, or cannot be read
    *((own, CONTAINER, 2 * GB) for own in ("/docker/abc", "/../other", None)),
]


@pytest.fixture
def root(tmp_path):
    """A folder with a /proc as of a machine with 4 000 000 kB available."""
    (tmp_path / "proc/self").mkdir(parents=True)
    meminfo = "MemTotal:  8000000 kB\nMemAvailable:  4000000 kB\nHugePages_Total:       0\n"
    (tmp_path / "proc/meminfo").write_text(meminfo)
    return tmp_path


def control_group(root, version, path, limit, used, cached):
    place, *names, freed = FILES[version]
    folder = root / "sys/fs/cgroup" / place / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip(names, (limit, used), strict=True):
        (folder / name).write_text(f"{value}\n")
    stat = f"anon 5\nactive_file {GB}\nnot_{freed} {GB}\n{freed} {cached}\nslab 1\n"
    (folder / "memory.stat").write_text(stat)


@pytest.mark.parametrize("version", FILES)
@pytest.mark.parametrize(("own", "groups", "expected"), SCENES)
def test_the_least_of_system_and_groups_counts(root, version, own, groups, expected):
    assert available_bytes(root) == AVAILABLE
    for path, sizes in groups.items():
        control_group(root, version, path, *sizes)
    if own:
        (root / "proc/self/cgroup").write_text(BELONGS_TO[version].format(own))
    assert available_bytes(root) == expected


def test_files_may_be_missing(root):
    control_group(root, 2, "", GB, 0, 0)
    for name, expected in (("memory.stat", GB), ("memory.current", AVAILABLE)):
        (root / "sys/fs/cgroup" / name).unlink()
        assert available_bytes(root) == expected
    (root / "proc/meminfo").unlink()  # then all of the machine's memory counts
    assert 10**8 < available_bytes(root) < 10**14


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
