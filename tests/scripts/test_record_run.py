"""The record of a run: a config to be used again, versions, and nothing about who or where."""

import getpass
import json
import platform
import socket
from importlib import metadata
from pathlib import Path

import record_run
import yaml

from ntk_workflow.yaml_files import to_words

CONFIG = {"seeds": [1, 32], "run": "tiny", "speech": {"window": "povey", "preemphasis": 0.97}}
CONFIG |= {"samples": "all", "balanced": False, "bounds_study": None}
CONFIG["training"] = {"fig3": {"learning_rates": {"critical": [0.5, 1e-05]}, "batch_size": "all"}}


def test_config_and_versions_are_recorded_and_nobody_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"catalogues": [str(tmp_path / "own/catalogue.yaml"), "/home/someone/more.yaml"]}
    outputs = ["--config-output=config.yaml", "--versions-output=versions.json"]
    arguments = ["--config", *to_words(CONFIG | given), "--workflow-digest=0123", *outputs]
    assert record_run.main(arguments) == 0
    text = Path("config.yaml").read_text()
    published = {"catalogues": ["own/catalogue.yaml", "…/more.yaml"]}
    assert yaml.safe_load(text) == CONFIG | published
    assert "\nseeds: [1, 32]\n" in text  # as a person would write it
    recorded = json.loads(versions := Path("versions.json").read_text())
    assert recorded["python"] == platform.python_version()
    assert recorded["libraries"]["torch"] == metadata.version("torch")
    assert recorded["architecture"] == platform.machine()
    citation = yaml.safe_load((Path(__file__).parents[2] / "CITATION.cff").read_text())
    assert recorded["ntk-conditioning"] == {"version": citation["version"], "code": "0123"}
    for content in (text, versions):
        # as values: "root" may well be a part of a word
        words = set(content.replace('"', " ").replace(",", " ").split())
        assert not words & {getpass.getuser(), socket.gethostname()}
        assert str(tmp_path) not in content
