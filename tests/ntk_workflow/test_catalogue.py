"""The catalogue fits its schema, and the schema names every mistake in an entry."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ntk_conditioning.data import datasets, readers
from ntk_conditioning.data.prepared import SCALINGS
from ntk_workflow.catalogue import dataset_source, known_shape

ROOT = Path(__file__).parents[2]
CATALOGUE: dict[str, Any] = yaml.safe_load((ROOT / "datasets.yaml").read_text())
SUBSETS: dict[str, Any] = yaml.safe_load((ROOT / "tests/data/catalogue.yaml").read_text())
SCHEMA: dict[str, Any] = yaml.safe_load((ROOT / "schemas/datasets.schema.yaml").read_text())


def mistake(catalogue: object) -> str | None:
    """Return the most telling deviation from the schema, with its place."""
    error = best_match(Draft202012Validator(SCHEMA).iter_errors(catalogue))
    return None if error is None else f"{error.json_path}: {error.message}"


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


def test_every_key_of_the_schema_is_described():
    def properties(node: object, inside_if: bool = False) -> Iterator[tuple[str, Any]]:
        if isinstance(node, dict):
            if not inside_if and isinstance(node.get("properties"), dict):
                yield from node["properties"].items()
            for key, value in node.items():
                # Conditions repeat keys that are described where they are defined.
                yield from properties(value, inside_if or key == "allOf")
        elif isinstance(node, list):
            for value in node:
                yield from properties(value, inside_if)

    found = dict(properties(SCHEMA))
    assert {"title", "path", "sha256", "stride", "labels"} <= found.keys()
    assert [name for name, spec in found.items() if "description" not in spec] == []


def test_the_catalogue_fits_its_schema():
    assert mistake(CATALOGUE) is None


def test_the_subsets_stack_on_the_catalogue():
    assert mistake(SUBSETS) is None
    assert not SUBSETS.keys() & CATALOGUE.keys()
    for name, entry in SUBSETS.items():
        official = CATALOGUE[name.removesuffix("_subset")]
        assert (entry["reader"], entry["scaling"]) == (official["reader"], official["scaling"])
        for part, file in entry.get("files", {}).items():
            assert file["name"] == official["files"][part]["name"]
            assert file["urls"] == []
            assert not set(file["sha256"]) & set(official["files"][part]["sha256"])


def test_a_name_stands_for_one_file():
    """The rules know a download by its name, so two entries of one name must be the same file."""
    for catalogue in (CATALOGUE, SUBSETS):
        known: dict[str, Any] = {}
        for entry in catalogue.values():
            for file in entry.get("files", {}).values():
                assert known.setdefault(file["name"], file) == file


def test_downloads_have_an_address_a_size_and_a_citation():
    for name, entry in CATALOGUE.items():
        assert entry.get("citation"), name
        for file in entry.get("files", {}).values():
            assert file["urls"], name
            assert file["bytes"] > 0
            assert all(url.endswith(Path(file["name"]).name) for url in file["urls"])


def test_scalings_and_readers_are_those_of_the_code():
    keys = SCHEMA["$defs"]["entry"]["properties"]
    assert tuple(keys["scaling"]["enum"]) == SCALINGS
    families = (
        readers.GENERATED,
        readers.FROM_ONE_FILE,
        readers.FROM_KNOWN_FILE,
        readers.FROM_TWO_FILES,
        readers.FROM_ARCHIVE,
        readers.FROM_FEATURES,
    )
    known = [reader for family in families for reader in family]
    assert sorted(keys["reader"]["enum"]) == sorted(known)


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("mnist", {"typo": 1}, "$.mnist: 'typo' is not one of"),
        ("mnist", {"path": "x"}, "$.mnist: 'path' is not one of"),
        ("mnist", {"options": {}}, "$.mnist: 'options' is not one of"),
        ("digits", {"options": {}}, "$.digits: 'options' is not one of"),
        ("mnist", {"reader": "idxx"}, "$.mnist.reader: 'idxx' is not one of"),
        ("mnist", {"scaling": "unit"}, "$.mnist.scaling: 'unit' is not one of"),
        ("mnist", {"value_range": None}, "$.mnist.value_range: None is not of type"),
        ("mnist", {"value_range": ...}, "$.mnist: 'value_range' is a required property"),
        ("mnist", {"files": ...}, "$.mnist: 'files' is a required property"),
        ("mnist", {"title": ...}, "$.mnist: 'title' is a required property"),
        ("mnist", {"reader": ...}, "$.mnist: 'reader' is a required property"),
        ("svhn", {"files": ...}, "$.svhn: 'path' is a required property"),
        ("svhn", {"path": "x"}, "$.svhn: 'path' is not one of"),
        ("svhn", {"options": {"classes": []}}, "$.svhn.options.classes: [] should be non-empty"),
        ("cifar10", {"options": {"classes": [10]}}, "$.cifar10.options.classes[0]: 10 is greater"),
        ("cifar10", {"options": {"classes": [1, 1]}}, "$.cifar10.options.classes: [1, 1] has non-"),
        ("cifar10", {"options": {"class": [1]}}, "$.cifar10.options: Additional properties"),
        ("librispeech", {"options": ...}, "$.librispeech: 'options' is a required property"),
        ("librispeech", {"files": ...}, "$.librispeech: 'path' is a required property"),
        ("librispeech", {"options": {"labels": "speaker"}}, "$.librispeech.options: 'subset' is"),
        ("librispeech", {"options": {"subset": "x"}}, "$.librispeech.options: 'labels' is a req"),
        (
            "librispeech",
            {"options": {"subset": "x", "labels": "word"}},
            "$.librispeech.options.labels: 'word' is not one of",
        ),
        (
            "librispeech",
            {"options": {"subset": "x", "labels": "phone"}},
            "$.librispeech.options: 'alignments' is a required property",
        ),
        (
            "librispeech",
            {"options": {"subset": "x", "labels": "speaker", "alignments": "y"}},
            "$.librispeech.options: 'alignments' is not one of",
        ),
        (
            "librispeech",
            {"options": {"subset": "x", "labels": "speaker", "frames": 9}},
            "$.librispeech.options: 'frames' is not one of",
        ),
        ("synthetic", {"options": ...}, "$.synthetic: 'options' is a required property"),
        ("synthetic", {"options": {"n": 2, "d": 5}}, "$.synthetic.options: 'seed' is a req"),
        (
            "synthetic",
            {"options": {"n": 1, "d": 5, "seed": 0}},
            "$.synthetic.options.n: 1 is less than the minimum of 2",
        ),
    ],
)
def test_a_mistake_is_named(name, change, expected):
    catalogue = copy.deepcopy(CATALOGUE)
    for key, value in change.items():
        if value is ...:
            del catalogue[name][key]
        else:
            catalogue[name][key] = value
    assert str(mistake(catalogue)).startswith(expected)


FILE = CATALOGUE["mnist"]["files"]["train_x"]
OWN_SVHN = {"reader": "svhn", "path": "x.mat", "sha256": "0" * 64}
SPEECH = {"subset": "dev-clean", "labels": "phone", "alignments": "folder"}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (FILE | {"name": "../x"}, ".name: '../x' does not match"),
        (FILE | {"name": "/etc/x"}, ".name: '/etc/x' does not match"),
        (FILE | {"sha256": ["abc"]}, ".sha256[0]: 'abc' does not match"),
        (FILE | {"sha256": []}, ".sha256: [] should be non-empty"),
        (FILE | {"urls": ["ftp://x"]}, ".urls[0]: 'ftp://x' does not match"),
        (FILE | {"urls": ["/x"]}, ".urls[0]: '/x' does not match"),
        (FILE | {"md5": "x"}, ": Additional properties are not allowed ('md5' was unexpected)"),
    ],
)
def test_a_mistake_in_a_file_is_named(file, expected):
    catalogue = copy.deepcopy(CATALOGUE)
    catalogue["mnist"]["files"]["train_x"] = file
    assert str(mistake(catalogue)).startswith(f"$.mnist.files.train_x{expected}")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"reader": "npz", "path": "x.npz"}, None),
        ({"reader": "npz", "files": {"train_x": FILE, "test_x": FILE}}, None),
        ({"reader": "csv", "path": "x", "options": {"labels": None}}, None),
        ({"reader": "parquet", "path": "x", "options": {"labels": "y"}}, None),
        ({"reader": "npz"}, "$.mine: 'path' is a required property"),
        ({"reader": "npz", "path": "x", "files": {"train_x": FILE}}, "$.mine: 'path' is not"),
        ({"reader": "npz", "files": {"train_x": FILE, "train_y": FILE}}, "$.mine.files: 'tr"),
        ({"reader": "npz", "path": "x", "options": {"lable": "y"}}, "$.mine.options: Addit"),
        ({"reader": "csv", "path": "x"}, "$.mine: 'options' is a required property"),
        ({"reader": "csv", "path": "x", "options": {}}, "$.mine.options: 'labels' is a req"),
        (OWN_SVHN | {"options": {"classes": [0, 2]}}, None),
        ({"reader": "svhn", "path": "x.mat"}, "$.mine: 'sha256' is a required property"),
        (OWN_SVHN | {"sha256": "00"}, "$.mine.sha256: '00' does not match"),
        (OWN_SVHN | {"reader": "npz"}, "$.mine: 'sha256' is not one of"),
        ({"reader": "svhn", "files": {"train_x": FILE}, "sha256": "0" * 64}, "$.mine: 'sha256' is"),
        ({"reader": "svhn", "files": {"train_x": FILE}}, None),
        ({"reader": "svhn", "files": {"train_x": FILE, "train_y": FILE}}, "$.mine.files: 'train_y"),
        ({"reader": "cifar10", "path": "folder"}, None),
        ({"reader": "cifar10", "files": {"train_x": FILE, "test_x": FILE}}, None),
        ({"reader": "librispeech", "path": "x", "options": SPEECH}, None),
        ({"reader": "librispeech", "files": {"train_x": FILE}, "options": SPEECH}, None),
        (
            {"reader": "librispeech", "files": dict.fromkeys(["train_x", "test_x"], FILE)}
            | {"options": SPEECH},
            "$.mine.files: 'test_x' is not one of",
        ),
        (
            {"reader": "npz", "files": {"train_x": FILE | {"urls": ["file:///srv/x"]}}},
            None,
        ),
        ({"reader": "idx", "files": {"train_y": FILE}}, "$.mine.files: 'train_x' is a req"),
        (
            {"reader": "idx", "files": {"train_x": FILE, "test_y": FILE}},
            "$.mine.files: 'test_x' is a dependency of 'test_y'",
        ),
    ],
)
def test_ones_own_entries(entry, expected):
    found = mistake({"mine": {"title": "Mine", "scaling": "none"} | entry})
    assert found is None if expected is None else str(found).startswith(expected)


@pytest.mark.parametrize("name", ["Mine", "my-data", "a/b", "", 7])
def test_names_are_plain_words(name):
    assert mistake({name: CATALOGUE["digits"]}) is not None


def test_sizes_are_known_without_files():
    shapes = {name: known_shape(entry) for name, entry in CATALOGUE.items()}
    assert shapes["mnist"] == (60000, 784)
    assert shapes["librispeech"] is None
    for name in ("synthetic", "synthetic10", "digits", "patches"):
        entry = dataset_source(name, CATALOGUE[name])
        assert datasets.read(entry).x.shape == shapes[name]


def test_another_shape_than_the_catalogue_gives_is_told(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.arange(12.0).reshape(4, 3))
    own = {"title": "Mine", "reader": "npz", "path": str(path), "scaling": "none"}
    assert datasets.read(dataset_source("mine", own | {"shape": [4, 3]})).x.shape == (4, 3)
    with pytest.raises(datasets.ShapeError, match=r"4 samples of 3 features .* \[5, 3\]"):
        datasets.read(dataset_source("mine", own | {"shape": [5, 3]}))
