"""The catalogue fits its schema, and the schema names every mistake in an entry."""

from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ntk_conditioning.data import datasets, readers
from ntk_conditioning.data.prepared import SCALINGS
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


def test_the_schema_is_one_and_describes_every_key():
    Draft202012Validator.check_schema(SCHEMA)
    parts, keys = SCHEMA["$defs"], SCHEMA["$defs"]["entry"]["properties"]
    for part in (*parts.values(), keys["files"]):
        assert [
            name for name, spec in part.get("properties", {}).items() if "description" not in spec
        ] == []
    assert tuple(keys["scaling"]["enum"]) == SCALINGS
    assert set(keys["reader"]["enum"]) == readers.READERS.keys()


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
SUBSET, SPEAKER = {"subset": "x"}, {"subset": "x", "labels": "speaker"}
SPEECH = {"subset": "dev-clean", "labels": "phone", "alignments": "folder"}

# A dataset of the catalogue, what changes in its entry (... goes), and what the schema says.
MISTAKES = [
    ("mnist", {"typo": 1}, ": 'typo' is not one of"),
    ("mnist", {"path": "x"}, ": 'path' is not one of"),
    ("digits", {"options": {}}, ": 'options' is not one of"),
    ("mnist", {"reader": "idxx"}, ".reader: 'idxx' is not one of"),
    ("mnist", {"value_range": None}, ".value_range: None is not of type"),
    ("mnist", {"value_range": ...}, ": 'value_range' is a required property"),
    ("mnist", {"files": ...}, ": 'files' is a required property"),
    ("svhn", {"options": {"classes": []}}, ".options.classes: [] should be non-empty"),
    ("cifar10", {"options": {"classes": [1, 1]}}, ".options.classes: [1, 1] has non-"),
    ("librispeech", {"files": ...}, ": 'path' is a required property"),
    ("librispeech", {"options": {"labels": "speaker"}}, ".options: 'subset' is"),
    ("librispeech", {"options": SUBSET | {"labels": "w"}}, ".options.labels: 'w' is not"),
    ("librispeech", {"options": SUBSET | {"labels": "phone"}}, ".options: 'alignments' is a"),
    ("librispeech", {"options": SPEAKER | {"alignments": "y"}}, ".options: 'alignments' is n"),
    ("librispeech", {"options": SPEAKER | {"frames": 9}}, ".options: 'frames' is not one of"),
    ("synthetic", {"options": ...}, ": 'options' is a required property"),
]


@pytest.mark.parametrize(("name", "change", "expected"), MISTAKES)
def test_a_mistake_is_named(name, change, expected):
    entry = {key: value for key, value in (CATALOGUE[name] | change).items() if value is not ...}
    assert str(mistake({name: entry})).startswith(f"$.{name}{expected}")


ONE, BOTH = {"train_x": FILE}, {"train_x": FILE, "test_x": FILE}
LABELS = {"train_x": FILE, "train_y": FILE}
OWN_SVHN = {"path": "x.mat", "sha256": "0" * 64}

# Entries of one's own, and what is wrong with them.
ENTRIES = [
    ("npz", {"path": "x.npz"}, None),
    ("npz", {"files": BOTH}, None),
    ("npz", {"files": {"train_x": FILE | {"urls": ["file:///srv/x"]}}}, None),
    ("csv", {"path": "x", "options": {"labels": None}}, None),
    ("svhn", OWN_SVHN | {"options": {"classes": [0, 2]}}, None),
    ("cifar10", {"path": "folder"}, None),
    ("librispeech", {"path": "x", "options": SPEECH}, None),
    ("librispeech", {"files": ONE, "options": SPEECH}, None),
    ("npz", {}, ": 'path' is a required property"),
    ("npz", {"files": LABELS}, ".files: 'tr"),
    ("npz", {"path": "x", "options": {"lable": "y"}}, ".options: Addit"),
    ("csv", {"path": "x"}, ": 'options' is a required property"),
    ("csv", {"path": "x", "options": {}}, ".options: 'labels' is a req"),
    ("svhn", {"path": "x.mat"}, ": 'sha256' is a required property"),
    ("svhn", OWN_SVHN | {"sha256": "00"}, ".sha256: '00' does not match"),
    ("npz", OWN_SVHN, ": 'sha256' is not one of"),
    ("svhn", {"files": LABELS}, ".files: 'train_y"),
    ("librispeech", {"files": BOTH, "options": SPEECH}, ".files: 'test_x' is not one of"),
    ("idx", {"files": {"train_y": FILE}}, ".files: 'train_x' is a req"),
    ("idx", {"files": ONE | {"test_y": FILE}}, ".files: 'test_x' is a dependency of 'te"),
]
# What changes in the entry of a file.
FILES = [
    ({"name": "../x"}, ".name: '../x' does not match"),
    ({"name": "/etc/x"}, ".name: '/etc/x' does not match"),
    ({"sha256": ["abc"]}, ".sha256[0]: 'abc' does not match"),
    ({"sha256": []}, ".sha256: [] should be non-empty"),
    ({"urls": ["ftp://x"]}, ".urls[0]: 'ftp://x' does not match"),
    ({"md5": "x"}, ": Additional properties are not allowed ('md5'"),
]
ENTRIES += [
    ("npz", {"files": {"train_x": FILE | change}}, f".files.train_x{expected}")
    for change, expected in FILES
]


@pytest.mark.parametrize(("reader", "entry", "expected"), ENTRIES)
def test_ones_own_entries(reader, entry, expected):
    found = mistake({"mine": {"title": "Mine", "reader": reader, "scaling": "none"} | entry})
    assert found is None if expected is None else found.startswith(f"$.mine{expected}")


def test_names_are_plain_words():
    for name in ("Mine", "my-data", "a/b", "", 7):
        assert mistake({name: CATALOGUE["digits"]}) is not None


FRAMES = {"frames": 300, "stack_left": 5, "stack_right": 6, "num_mel_bins": 64}


def test_sizes_are_known_before_a_job_has_read_the_files(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    for name in ("synthetic", "digits", "patches", "wine"):
        entry = (CATALOGUE | OWN)[name]
        assert shape_of(entry, {}) == datasets.read(dataset_source(name, entry)).x.shape
    assert shape_of(CATALOGUE["mnist"], {}) == (60000, 784)
    assert shape_of(CATALOGUE["librispeech"], FRAMES) == (300, 768)
    assert shape_of(CATALOGUE["librispeech"], FRAMES | {"frames": "all"}) == (None, 768)
    np.savez(tmp_path / "mine.npz", x=np.zeros((4, 3, 2)))
    assert shape_of({"reader": "npz", "path": f"{tmp_path}/mine.npz"}, {}) == (4, 6)
    (tmp_path / "damaged").write_bytes(b"\xff\0,\n")
    for path in ("absent", "damaged"):  # the job that reads it says what is wrong
        for reader in ("npz", "csv", "parquet"):
            entry = {"reader": reader, "path": f"{tmp_path}/{path}", "options": {"labels": "y"}}
            assert shape_of(entry, {}) == (None, None)
