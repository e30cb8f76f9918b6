"""Clones of the repository for the tests of the workflow."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from ntk_workflow.config import read_yaml
from tests.support.clone import ROOT, Clone

#: The smallest run that uses every rule, with a few of its figures.
CI_FILES = ("config/ci.yaml", f"{ROOT}/tests/data/few_figures.yaml")
CI = ("--configfile", *CI_FILES)
FEW = read_yaml(CI_FILES[1])["figures"]
#: A run of one kernel, whose bundle is made in seconds.
SMALL = dict.fromkeys(key for key in read_yaml(ROOT / CI_FILES[0]) if "study" in key)
SMALL |= dict.fromkeys(("training", "papers", "claim_experiments"))
SMALL |= {"kernels": ["infinite_ntk"], "depths": [1], "seeds": [1], "kernel_size": 48}
SMALL |= {"blocks": 1, "samples": 100}


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "clone")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The clone, one for all workers, in which the smallest full run is done; do not change it."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "finished"
    with FileLock(f"{shared}.lock"):
        if not (shared / "done").exists():
            shutil.rmtree(shared, ignore_errors=True)
            shared.mkdir()
            Clone(shared / "clone").run(*CI, "--cores", "2")
            (shared / "done").touch()
    return Clone(shared / "clone")


@pytest.fixture
def rerun(finished: Clone, tmp_path: Path) -> Iterator[Clone]:
    """A copy of the finished clone that a test may change."""
    yield finished.copy(tmp_path / "clone")
    shutil.rmtree(tmp_path / "clone")
