"""A Slurm of the tests' own, for all of them."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, reason_not_to_run
from tests.slurm.site import Site


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The running cluster; where there can be none, tests are skipped, or fail if NTK_SLURM=1."""
    reason = reason_not_to_run()
    if reason:
        refuse = pytest.fail if os.environ.get("NTK_SLURM") == "1" else pytest.skip
        refuse(f"no Slurm: {reason}")
    # Sockets have short names, so not in pytest's folder.
    with (
        tempfile.TemporaryDirectory(prefix="ntk-slurm-") as folder,
        Cluster(Path(folder)).running() as cluster,
    ):
        yield cluster


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Site:
    """A fresh clone with a profile for the cluster."""
    return Site(tmp_path / "clone", cluster)
