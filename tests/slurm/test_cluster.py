"""Whose configuration is it? Nothing here starts a daemon."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.slurm import cluster as module
from tests.slurm.cluster import Cluster, linked_cluster


@pytest.fixture
def link(tmp_path: Path) -> Path:
    """/etc/slurm/slurm.conf as a cluster of the tests leaves it."""
    target, link = tmp_path / "ntk-slurm-x/slurm.conf", tmp_path / "slurm.conf"
    target.parent.mkdir()
    target.touch()
    link.symlink_to(target)
    return link


def ended() -> int:
    """Return the number of a process that is no more."""
    with subprocess.Popen(["true"]) as process:
        return process.pid


def start(link: Path, pids: dict[str, int]) -> Cluster:
    folder = Path(os.readlink(link)).parent
    (folder / module.PIDS).write_text(json.dumps(pids))
    cluster = linked_cluster(link)
    assert cluster is not None
    return cluster


def test_another_slurm_is_not_ours(tmp_path: Path, link: Path):
    assert linked_cluster(link) is None  # a folder without what a start leaves there
    file, away = tmp_path / "file.conf", tmp_path / "away.conf"
    file.touch()
    assert linked_cluster(file) is None
    away.symlink_to(tmp_path / "share" / "slurm.conf")  # of a site, not mounted at the moment
    assert linked_cluster(away) is None


def test_a_dead_cluster_is_abandoned(link: Path):
    assert start(link, {"slurmctld": ended()}).is_abandoned()
    assert start(link, {"slurmctld": os.getpid()}).is_abandoned()  # the number is another's now


def test_a_cluster_lives_as_long_as_its_tests(link: Path):
    name = Path("/proc/self/comm").read_text().strip()
    cluster = start(link, {name: os.getpid()})
    assert not cluster.is_abandoned()
    (cluster.folder / module.OWNER).write_text(str(os.getpid()))
    assert not cluster.is_abandoned()
    (cluster.folder / module.OWNER).write_text(str(ended()))
    assert cluster.is_abandoned()


def test_a_link_to_a_removed_folder_is_cleared_by_the_next_cluster(tmp_path, link, monkeypatch):
    shutil.rmtree(Path(os.readlink(link)).parent)
    monkeypatch.setattr(module, "ETC", tmp_path)
    cluster = linked_cluster(link)
    assert cluster is not None
    cluster.stop()
    assert not link.is_symlink()
