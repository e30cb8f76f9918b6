"""The parts of a bundle: archive, bag, crate, the record of jobs, pictures."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import bagit
import numpy as np
import pytest
from PIL import Image

from ntk_conditioning.files import sha256
from ntk_workflow.bundle import archive, bag, checks, crate, images, jobs
from tests.bundles import DESCRIPTION, RUN, TABLES, describe, write_bundle, write_payload
from tests.crates import crate_issues


def test_equal_content_has_equal_bytes_wherever_and_whenever(tmp_path: Path):
    first = write_bundle(tmp_path / "a.zip", tmp_path / "one")
    second = write_bundle(tmp_path / "b.zip", tmp_path / "another" / "place")
    copy = tmp_path / "copy" / RUN
    for path in reversed(archive.files_in(tmp_path / "one" / RUN)):  # written in another order
        target = copy / path.relative_to(tmp_path / "one" / RUN)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        target.chmod(0o600)
        os.utime(target, (0, 0))
    archive.pack(copy, tmp_path / "c.zip")
    assert first.read_bytes() == second.read_bytes() == (tmp_path / "c.zip").read_bytes()


def test_the_bag_is_one_for_other_tools(tmp_path: Path):
    write_bundle(tmp_path / "a.zip", tmp_path)
    opened = bagit.Bag(str(tmp_path / RUN))
    assert opened.is_valid()
    assert opened.algorithms == ["sha256"]
    assert opened.info["Bagging-Date"] == "2026-01-02"
    lines = (tmp_path / RUN / bag.TAG_MANIFEST).read_text().splitlines()
    assert lines == sorted(lines, key=lambda line: line.split()[1])


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    write_payload(tmp_path / RUN)
    describe(tmp_path / RUN)
    return tmp_path / RUN


def graph(folder: Path) -> dict[str, dict[str, object]]:
    entities = json.loads((folder / crate.NAME).read_text())["@graph"]
    return {entity["@id"]: entity for entity in entities}


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph:DeprecationWarning")  # of rdflib, to itself
def test_the_crate_is_a_workflow_run_crate(payload: Path, tmp_path: Path):
    assert crate_issues(payload, tmp_path) == []
    metadata = json.loads((payload / crate.NAME).read_text())
    del next(each for each in metadata["@graph"] if each["@id"] == "#run")["instrument"]
    (payload / crate.NAME).write_text(json.dumps(metadata))
    assert any("instrument" in message for message in crate_issues(payload, tmp_path))


def test_the_crate_refers_to_data_and_does_not_copy_them(payload: Path):
    entities = graph(payload)
    original = entities["https://example.org/a.gz"]
    assert original["sha256"] == "0" * 64
    assert original["sameAs"] == ["https://mirror.example.org/a.gz"]
    (address,) = (key for key, each in entities.items() if each.get("name") == "own.csv")
    assert address.startswith("#")
    assert entities[address]["sha256"] == "1" * 64
    assert entities[TABLES["angles"]]["sha256"] == sha256(payload / TABLES["angles"])
    checks.require_described(payload)


def test_the_crate_tells_of_many_rows_as_a_folder(payload: Path):
    name = f"results/{RUN}/spectra/"
    (payload / name).mkdir()
    (payload / name / "row.parquet").write_text("a row")
    for folders in ({name: "rows"}, {}):
        (payload / crate.NAME).unlink()
        crate.write(payload, replace(DESCRIPTION, folders=folders))
        assert graph(payload).get(name, {}).get("description") == folders.get(name)
        checks.require_described(payload)


def test_jobs_are_followed_back_to_what_no_record_tells_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    own = tmp_path.parent / f"{tmp_path.name}-own.csv"
    own.write_text("1,2")
    for name in ("row-1", "row-2", "table", "data"):
        Path(name).write_text(name)
    log = Path("logs/tiny/make_rows/digits/relu.log")
    log.parent.mkdir(parents=True)
    log.write_text(
        "12:00:00 host Linux x86_64\n12:00:00 device auto: a GPU\n"
        "12:00:00 device cuda, float32, width 8, depths 0, 1\n"
    )
    rows = {
        "inputs": ("data", str(own), "gone"),
        "log": (str(log),),
        "code": "c" * 16,
        "checksums": {"data": sha256(Path("data")), "gone": "9" * 64},
    }
    records = {
        "row-1": jobs.Record("make_rows", start=0.5, end=2, **rows),
        "row-2": jobs.Record("make_rows", start=0.5, end=61.9, **rows),
        "table": jobs.Record("make_table", ("row-1", "row-2"), ("logs/tiny/make_table.log",)),
    }
    provenance = jobs.provenance(["table"], records.get)
    made_rows, made_table = provenance["jobs"]
    assert made_rows == {
        "rule": "make_rows",
        "place": "digits/relu",
        "code": "c" * 16,
        "inputs": ["data", f"elsewhere/{own.name}", "gone"],
        "outputs": ["row-1", "row-2"],
        "device": "cuda",
        "dtype": "float32",
        "host": "Linux x86_64",
        "start": "1970-01-01T00:00:00+00:00",
        "end": "1970-01-01T00:01:01+00:00",
    }
    # nothing is guessed: no log, no times, no digest of code
    inputs = ["row-1", "row-2"]
    assert made_table == {"rule": "make_table", "place": "", "inputs": inputs, "outputs": ["table"]}
    assert provenance["files"]["table"] == {"sha256": sha256(Path("table")), "bytes": 5}
    assert provenance["files"]["gone"] == {"sha256": "9" * 64}
    assert str(tmp_path.parent) not in json.dumps(provenance)
    assert jobs.period([made_rows, made_table]) == (made_rows["start"], made_rows["end"])
    assert jobs.period([made_table]) is None


@pytest.mark.parametrize(
    ("change", "pixels", "tolerable"),
    [(0, 0, True), (images.LEVELS, 400, True), (images.LEVELS + 1, 1, True), (90, 2, False)],
)
def test_pictures_are_the_same_to_the_eye(
    tmp_path: Path, change: int, pixels: int, tolerable: bool
):
    values = np.full((400, 400, 3), 200, dtype=np.uint8)
    Image.fromarray(values).save(tmp_path / "a.png")
    values[0, :pixels] -= np.uint8(change)
    Image.fromarray(values).save(tmp_path / "b.png")
    difference = images.difference(tmp_path / "a.png", tmp_path / "b.png")
    assert difference.levels == (change if pixels else 0)
    assert difference.tolerable is tolerable
