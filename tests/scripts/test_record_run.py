"""The record of a run: a config to be used again, versions, and nothing about who or where."""

from __future__ import annotations

import getpass
import json
import platform
import socket
from importlib import metadata
from pathlib import Path

import record_run
import yaml

CONFIG = {
    "seeds": [1, 32],
    "run": "tiny",
    "speech": {"window": "povey", "preemphasis": 0.97},
    "samples": "all",
    "balanced": False,
    "training": {"fig3": {"learning_rates": {"critical": [0.5, 1e-05]}, "batch_size": "all"}},
}


def record(folder: Path, config: dict[str, object]) -> tuple[str, str]:
    arguments = [
        f"--config={json.dumps(config)}",
        "--workflow-digest=0123",
        f"--config-output={folder}/record/config.yaml",
        f"--versions-output={folder}/record/versions.json",
    ]
    assert record_run.main(arguments) == 0
    written = (folder / "record" / name for name in ("config.yaml", "versions.json"))
    first, second = (path.read_text(encoding="utf-8") for path in written)
    return first, second


def test_the_config_comes_back_as_it_was(tmp_path):
    text, _ = record(tmp_path, CONFIG)
    assert yaml.safe_load(text) == CONFIG
    assert "\nseeds: [1, 32]\n" in text  # as a person would write it


def test_the_order_of_keys_is_not_that_of_the_overlays(tmp_path):
    backwards = dict(reversed(CONFIG.items()))
    assert list(backwards) != list(CONFIG)
    assert record(tmp_path / "a", CONFIG) == record(tmp_path / "b", backwards)


def test_a_path_is_relative_or_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inside, outside = tmp_path / "own/catalogue.yaml", "/home/someone/swish.py"
    given = {
        "catalogues": ["datasets.yaml", str(inside)],
        "training": {"fig3": {"file": outside}},
    }
    text, _ = record(tmp_path, given)
    found = yaml.safe_load(text)
    assert found["catalogues"] == ["datasets.yaml", "own/catalogue.yaml"]
    assert found["training"]["fig3"]["file"] == "…/swish.py"


def test_the_versions_are_those_that_are_installed(tmp_path):
    _, text = record(tmp_path, CONFIG)
    found = json.loads(text)
    assert found["python"] == platform.python_version()
    assert found["ntk-conditioning"]["code"] == "0123"
    for name in ("torch", "numpy", "scipy", "pandas", "pyarrow", "matplotlib", "snakemake"):
        assert found["libraries"][name] == metadata.version(name)
    assert found["architecture"] == platform.machine()


def test_neither_user_nor_machine_is_named(tmp_path):
    for text in record(tmp_path, CONFIG):
        # as values: "root" may well be a part of a word
        words = set(text.replace('"', " ").replace(",", " ").split())
        assert not words & {getpass.getuser(), socket.gethostname()}
        assert str(tmp_path) not in text


def test_what_is_no_config_is_told_in_one_line(tmp_path, capsys):
    arguments = ["--workflow-digest=0", "--config-output=c.yaml", "--versions-output=v.json"]
    assert record_run.main(["--config=[1]", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "not a JSON object" in line


def test_the_project_has_one_version(tmp_path):
    _, text = record(tmp_path, CONFIG)
    recorded = json.loads(text)["ntk-conditioning"]["version"]
    citation = yaml.safe_load((Path(__file__).parents[2] / "CITATION.cff").read_text())
    assert citation["version"] == recorded
