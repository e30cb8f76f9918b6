"""The record of a run: a config to be used again, versions, and nothing about who or where."""

import getpass
import json
import platform
import socket
from importlib import metadata
from pathlib import Path

import pytest
import record_run
import yaml

from ntk_workflow.named_values import to_words

CONFIG = {"seeds": [1, 32], "run": "tiny", "speech": {"window": "povey", "preemphasis": 0.97}}
CONFIG |= {"samples": "all", "balanced": False, "bounds_study": None}
CONFIG["training"] = {"fig3": {"learning_rates": {"critical": [0.5, 1e-05]}, "batch_size": "all"}}


@pytest.fixture
def record(tmp_path):
    """Return a function that records a config and returns the texts of both files."""

    def written(config):
        files = tmp_path / "config.yaml", tmp_path / "versions.json"
        outputs = [f"--config-output={files[0]}", f"--versions-output={files[1]}"]
        arguments = ["--config", *to_words(config), "--workflow-digest=0123", *outputs]
        assert record_run.main(arguments) == 0
        return [file.read_text(encoding="utf-8") for file in files]

    return written


def test_the_config_comes_back_as_it_was_with_the_versions_and_nobody_named(record, tmp_path):
    text, versions = record(CONFIG)
    assert yaml.safe_load(text) == CONFIG
    assert "\nseeds: [1, 32]\n" in text  # as a person would write it
    assert record(dict(reversed(CONFIG.items())))[0] == text
    recorded = json.loads(versions)
    assert recorded["python"] == platform.python_version()
    for name in ("torch", "numpy", "scipy", "pandas", "pyarrow", "matplotlib", "snakemake"):
        assert recorded["libraries"][name] == metadata.version(name)
    assert recorded["architecture"] == platform.machine()
    citation = yaml.safe_load((Path(__file__).parents[2] / "CITATION.cff").read_text())
    assert recorded["ntk-conditioning"] == {"version": citation["version"], "code": "0123"}
    for content in (text, versions):
        # as values: "root" may well be a part of a word
        words = set(content.replace('"', " ").replace(",", " ").split())
        assert not words & {getpass.getuser(), socket.gethostname()}
        assert str(tmp_path) not in content


def test_a_path_is_relative_or_a_name(record, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    catalogues = ["datasets.yaml", str(tmp_path / "own/catalogue.yaml")]
    given = {"catalogues": catalogues, "training": {"fig3": {"file": "/home/someone/swish.py"}}}
    recorded = yaml.safe_load(record(given)[0])
    assert recorded["catalogues"] == ["datasets.yaml", "own/catalogue.yaml"]
    assert recorded["training"]["fig3"]["file"] == "…/swish.py"
