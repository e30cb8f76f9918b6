"""Versions are pinned once, and the same everywhere."""

import re

import yaml

from tests.clone import ROOT

LOCK = (ROOT / "envs/requirements.lock").read_text()


def test_every_requirement_is_locked_with_hashes_and_conda_has_the_same_pins():
    """Torch is pinned exactly and alone; some packages differ by Python version."""
    locked: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([a-z0-9.-]+)==([^ ;\\]+)", LOCK, re.MULTILINE):
        locked.setdefault(name, set()).add(version)
    lines = (ROOT / "envs/requirements.in").read_text().splitlines()
    required = {re.split(r"[<>=]", line)[0] for line in lines if line and line[0] != "#"}
    assert required <= set(locked)
    blocks = re.split(r"^(?=[a-z0-9.-]+==)", LOCK, flags=re.MULTILINE)
    assert all("--hash=sha256:" in block for block in blocks if "==" in block)

    torch = (ROOT / "envs/torch.txt").read_text().splitlines()
    assert [line for line in torch if line[0] != "#"] == ["torch==2.13.0"]
    assert "torch" not in locked

    packages = yaml.safe_load((ROOT / "envs/environment.yaml").read_text())["dependencies"]
    by_pip = packages.pop()["pip"]
    assert packages.pop() == "pip"
    pins = dict(re.split("==?", package) for package in packages + by_pip)
    assert pins.pop("pytorch") == "2.13.0"
    assert pins.pop("python") == "3.11"
    assert all(version in locked[name] for name, version in pins.items())
