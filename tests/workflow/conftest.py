"""Clones of the repository for the tests of the workflow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clone import Clone


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A fresh clone in which nothing has run."""
    return Clone(tmp_path / "clone")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone in which the smallest full run has been done; do not change it."""
    clone = Clone(tmp_path_factory.mktemp("finished") / "clone")
    clone.run("--configfile", "config/ci.yaml", "--cores", "2")
    return clone


@pytest.fixture
def rerun(finished: Clone, tmp_path: Path) -> Iterator[Clone]:
    """A copy of the finished clone that a test may change; times are kept."""
    copy = object.__new__(Clone)
    copy.folder = tmp_path / "clone"
    shutil.copytree(finished.folder, copy.folder, symlinks=True)
    yield copy
    shutil.rmtree(copy.folder)
