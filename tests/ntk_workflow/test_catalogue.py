"""The catalogue fits its schema, and the schema names every mistake in an entry."""

from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ntk_conditioning.data import datasets
from ntk_workflow.catalogue import dataset_source, shape_of
from ntk_workflow.config import read_yaml

ROOT = Path(__file__).parents[2]
CATALOGUE = read_yaml(ROOT / "datasets.yaml")
SUBSETS = read_yaml(ROOT / "tests/data/catalogue.yaml")
OWN = read_yaml(ROOT / "docs/examples/own_catalogue.yaml")
SCHEMA = read_yaml(ROOT / "schemas/datasets.schema.yaml")


def mistake(catalogue: object) -> str | None:
    error = best_match(Draft202012Validator(SCHEMA).iter_errors(catalogue))
    return None if error is None else f"{error.json_path}: {error.message}"


def test_the_catalogues_fit_the_schema_and_the_subsets_stack_on_the_official_one():
    assert [mistake(catalogue) for catalogue in (CATALOGUE, SUBSETS, OWN)] == [None] * 3
    assert not SUBSETS.keys() & CATALOGUE.keys()
    for name, entry in SUBSETS.items():
        official = CATALOGUE[name.removesuffix("_subset")]
        assert (entry["reader"], entry["scaling"]) == (official["reader"], official["scaling"])
        for part, file in entry.get("files", {}).items():
            assert file["name"] == official["files"][part]["name"]
            assert file["urls"] == []
            assert not set(file["sha256"]) & set(official["files"][part]["sha256"])


def test_downloads_have_an_address_a_size_and_a_citation_and_a_name_stands_for_one_file():
    known = {}
    for name, entry in CATALOGUE.items():
        assert entry.get("citation"), name
        for file in entry.get("files", {}).values():
            assert file["urls"], name
            assert file["bytes"] > 0
            assert all(url.endswith(Path(file["name"]).name) for url in file["urls"])
            assert known.setdefault(file["name"], file) == file  # rules know it by its name


FILE = CATALOGUE["mnist"]["files"]["train_x"]
ONE = {"train_x": FILE}
PHONES = {"subset": "dev-clean", "labels": "phone", "alignments": "folder"}

# The reader of an entry, its keys, and what the schema says.
ENTRIES = [
    ("npz", {"path": "x.npz"}, None),
    ("csv", {"path": "x", "options": {"labels": None}}, None),
    ("svhn", {"path": "x.mat", "sha256": "0" * 64}, None),
    ("librispeech", {"files": ONE, "options": PHONES}, None),
    ("npz", {}, ": 'path' is a required property"),
    ("idxx", {"path": "x"}, ".reader: 'idxx' is not one of"),
    ("npz", {"path": "x", "options": {"lable": "y"}}, ".options: Addit"),
    ("svhn", {"path": "x.mat"}, ": 'sha256' is a required property"),
    ("cifar10", {"path": "x", "options": {"classes": [1, 2]}}, ".options: Addit"),
    ("idx", {"files": ONE | {"test_y": FILE}}, ".files: 'test_x' is a dependency of 'te"),
    ("librispeech", {"path": "x", "options": PHONES | {"frames": 9}}, ".options"),
    ("npz", {"files": {"train_x": FILE | {"name": "../x"}}}, ".files.train_x.name: '../x' does"),
]


@pytest.mark.parametrize(("reader", "entry", "expected"), ENTRIES)
def test_ones_own_entries(reader, entry, expected):
    found = mistake({"mine": {"title": "Mine", "reader": reader, "scaling": "none"} | entry})
    assert found is None if expected is None else found.startswith(f"$.mine{expected}")


FRAMES = {"frames": 300, "stack_left": 5, "stack_right": 6, "num_mel_bins": 64}


def test_sizes_are_known_before_a_job_has_read_the_files(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    for name in ("synthetic", "digits", "patches", "wine"):
        entry = (CATALOGUE | OWN)[name]
        assert shape_of(entry, {}) == datasets.read(dataset_source(name, entry)).x.shape
    assert shape_of(CATALOGUE["mnist"], {}) == (60000, 784)
    assert shape_of(CATALOGUE["librispeech"], FRAMES) == (300, 768)
    assert shape_of(CATALOGUE["librispeech"], FRAMES | {"frames": "all"}) == (None, 768)
    np.savez(tmp_path / "mine.npz", x=np.ones((4, 3, 2)))
    mine = {"reader": "npz", "path": f"{tmp_path}/mine.npz", "scaling": "none"}
    assert shape_of(mine, {}) == (4, 6)
    (tmp_path / "damaged").write_bytes(b"\xff\0,\n")
    for path in ("absent", "damaged"):  # the job that reads it says what is wrong
        for reader in ("npz", "csv", "parquet"):
            entry = {"reader": reader, "path": f"{tmp_path}/{path}", "options": {"labels": "y"}}
            assert shape_of(entry | {"scaling": "none"}, {}) == (None, None)
