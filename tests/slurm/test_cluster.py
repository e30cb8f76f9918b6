"""Whose configuration is it? Nothing here starts a daemon."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.slurm import cluster as module
from tests.slurm.cluster import linked_cluster


@pytest.fixture
def link(tmp_path: Path) -> Path:
    """/etc/slurm/slurm.conf as a cluster of the tests leaves it."""
    target, link = tmp_path / "ntk-slurm-x/slurm.conf", tmp_path / "slurm.conf"
    target.parent.mkdir()
    target.touch()
    link.symlink_to(target)
    return link


def test_another_slurm_is_not_ours(tmp_path: Path, link: Path):
    assert linked_cluster(link) is None  # a folder without what a start leaves there
    assert linked_cluster(link.resolve()) is None  # a plain file
    away = tmp_path / "away.conf"
    away.symlink_to(tmp_path / "share" / "slurm.conf")  # of a site, not mounted at the moment
    assert linked_cluster(away) is None


def test_a_cluster_lives_as_long_as_its_daemons_and_its_tests(link: Path):
    with subprocess.Popen(["true"]) as ended:
        pass
    name, pid = Path("/proc/self/comm").read_text().strip(), os.getpid()
    # The number of a daemon may be another's by now.
    for pids, dead in (({"slurmctld": ended.pid}, 1), ({"slurmctld": pid}, 1), ({name: pid}, 0)):
        (link.resolve().parent / module.PIDS).write_text(json.dumps(pids))
        assert linked_cluster(link).is_abandoned() == dead
    for owner in (pid, ended.pid):
        (link.resolve().parent / module.OWNER).write_text(str(owner))
        assert linked_cluster(link).is_abandoned() == (owner != pid)


def test_a_link_to_a_removed_folder_is_cleared_by_the_next_cluster(tmp_path, link, monkeypatch):
    shutil.rmtree(link.resolve().parent)
    monkeypatch.setattr(module, "ETC", tmp_path)
    linked_cluster(link).stop()
    assert not link.is_symlink()
