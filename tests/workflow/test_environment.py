"""Versions are pinned once, and the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ENVS = Path(__file__).parents[2] / "envs"


def locked() -> dict[str, set[str]]:
    """Return the versions of each package in the lock file; some differ by Python version."""
    pins: dict[str, set[str]] = {}
    for name, version in re.findall(
        r"^([a-z0-9.-]+)==([^ ;\\]+)", (ENVS / "requirements.lock").read_text(), re.MULTILINE
    ):
        pins.setdefault(name, set()).add(version)
    return pins


def requirements() -> list[str]:
    lines = (ENVS / "requirements.in").read_text().splitlines()
    return [re.split(r"[<>=]", line)[0] for line in lines if line and not line.startswith("#")]


def test_every_requirement_is_locked_with_hashes():
    assert set(requirements()) <= set(locked())
    blocks = re.split(
        r"^(?=[a-z0-9.-]+==)", (ENVS / "requirements.lock").read_text(), flags=re.MULTILINE
    )
    assert all("--hash=sha256:" in block for block in blocks if "==" in block)


def test_torch_is_pinned_exactly_and_alone():
    lines = [line for line in (ENVS / "torch.txt").read_text().splitlines() if line[0] != "#"]
    assert lines == ["torch==2.13.0"]
    assert "torch" not in locked()


def test_conda_has_the_same_pins():
    packages = yaml.safe_load((ENVS / "environment.yaml").read_text())["dependencies"]
    by_pip = packages.pop()["pip"]
    assert packages.pop() == "pip"
    pins = dict(re.split("==?", package) for package in packages + by_pip)
    assert pins.pop("pytorch") == "2.13.0"
    assert pins.pop("python") == "3.11"
    assert all(version in locked()[name] for name, version in pins.items())
