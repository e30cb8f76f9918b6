"""The parts of a bundle: archive, bag, crate, the record of jobs, pictures."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import bagit
import numpy as np
import pytest
from PIL import Image

from ntk_conditioning.files import sha256
from ntk_workflow.bundle import BundleError, archive, bag, checks, crate, images, jobs
from tests.bundles import RUN, TABLES, describe, description, write_bundle, write_payload
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


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph:DeprecationWarning")  # of rdflib, to itself
def test_the_crate_is_a_workflow_run_crate(tmp_path: Path):
    write_payload(tmp_path / RUN)
    describe(tmp_path / RUN)
    assert crate_issues(tmp_path / RUN, tmp_path) == []
    path = tmp_path / RUN / crate.NAME
    graph = json.loads(path.read_text())
    run = next(entity for entity in graph["@graph"] if entity["@id"] == "#run")
    del run["instrument"]
    path.write_text(json.dumps(graph))
    assert any("instrument" in message for message in crate_issues(tmp_path / RUN, tmp_path))


def graph(folder: Path) -> dict[str, dict[str, object]]:
    entities = json.loads((folder / crate.NAME).read_text())["@graph"]
    return {entity["@id"]: entity for entity in entities}


def test_the_crate_refers_to_data_and_does_not_copy_them(tmp_path: Path):
    write_payload(tmp_path / RUN)
    describe(tmp_path / RUN)
    found = graph(tmp_path / RUN)
    original = found["https://example.org/a.gz"]
    assert original["sha256"] == "0" * 64
    assert original["sameAs"] == ["https://mirror.example.org/a.gz"]
    own = next(entity for entity in found.values() if entity.get("name") == "own.csv")
    assert own["sha256"] == "1" * 64
    assert own["@id"].startswith("#")  # type: ignore[attr-defined]
    table = found[TABLES["angles"]]
    assert table["sha256"] == sha256(tmp_path / RUN / TABLES["angles"])
    checks.require_described(tmp_path / RUN)


def test_the_crate_tells_of_many_cells_as_a_folder(tmp_path: Path):
    write_payload(tmp_path / RUN)
    cell = tmp_path / RUN / "results" / RUN / "spectra" / "cell.parquet"
    cell.parent.mkdir(parents=True)
    cell.write_text("a cell")
    name = f"results/{RUN}/spectra/"
    crate.write(
        tmp_path / RUN, description(folders={name: "cells"}, jobs=f"results/{RUN}/tables/angles")
    )
    assert graph(tmp_path / RUN)[name]["description"] == "cells"
    checks.require_described(tmp_path / RUN)
    crate.write(tmp_path / RUN, description())
    assert name not in graph(tmp_path / RUN)


@pytest.fixture
def worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, jobs.Record]:
    """A working folder in which two jobs have run: cells from data, a table from cells."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    own = tmp_path.parent / f"{tmp_path.name}-own.csv"
    own.write_text("1,2")
    for name in ("cell-1", "cell-2", "table", "data"):
        Path(name).write_text(name)
    Path("cells.log").write_text(
        "12:00:00 host Linux x86_64\n12:00:00 device auto: a GPU\n"
        "12:00:00 device cuda, float32, width 8, depths 0, 1\n"
    )
    cells = {
        "inputs": ("data", str(own), "gone"),
        "log": ("cells.log",),
        "code": "c" * 16,
        "checksums": {"data": sha256(Path("data")), "gone": "9" * 64},
    }
    return {
        "cell-1": jobs.Record("make_cells", start=0.5, end=2, **cells),
        "cell-2": jobs.Record("make_cells", start=0.5, end=61.9, **cells),
        "table": jobs.Record("make_table", ("cell-1", "cell-2"), ("table-x.log",)),
    }


def test_jobs_are_followed_back_to_what_no_record_tells_of(worked: dict[str, jobs.Record]):
    found = jobs.provenance(["table"], worked.get, {"make_table": r"table\-(?P<kind>.+)\.log$"})
    cells, table = found["jobs"]
    assert cells == {
        "rule": "make_cells",
        "wildcards": {},
        "code": "c" * 16,
        "inputs": ["data", f"elsewhere/{Path.cwd().name}-own.csv", "gone"],
        "outputs": ["cell-1", "cell-2"],
        "device": "cuda",
        "dtype": "float32",
        "host": "Linux x86_64",
        "start": "1970-01-01T00:00:00+00:00",
        "end": "1970-01-01T00:01:01+00:00",
    }
    # nothing is guessed: no log, no times, no digest of code
    assert table == {
        "rule": "make_table",
        "wildcards": {"kind": "x"},
        "inputs": ["cell-1", "cell-2"],
        "outputs": ["table"],
    }
    assert found["files"]["table"] == {"sha256": sha256(Path("table")), "bytes": 5}
    assert found["files"]["gone"] == {"sha256": "9" * 64}
    assert str(Path.cwd().parent) not in json.dumps(found)
    assert jobs.period(found["jobs"]) == (cells["start"], cells["end"])
    assert jobs.period([table]) is None


def test_an_input_that_is_another_one_by_now(worked: dict[str, jobs.Record]):
    Path("data").write_text("other data")
    with pytest.raises(BundleError, match="data is not the file that a job has read"):
        jobs.provenance(["table"], worked.get, {})


def picture(path: Path, change: int = 0, pixels: int = 0, size: int = 400) -> Path:
    values = np.full((size, size, 3), 200, dtype=np.uint8)
    values[0, :pixels] -= np.uint8(change)
    Image.fromarray(values).save(path)
    return path


@pytest.mark.parametrize(
    ("change", "pixels", "tolerable"),
    [(0, 0, True), (images.LEVELS, 400, True), (images.LEVELS + 1, 1, True), (90, 2, False)],
)
def test_pictures_are_the_same_to_the_eye(
    tmp_path: Path, change: int, pixels: int, tolerable: bool
):
    found = images.difference(
        picture(tmp_path / "a.png"), picture(tmp_path / "b.png", change, pixels)
    )
    assert found.levels == (change if pixels else 0)
    assert found.tolerable is tolerable


def test_pictures_of_other_sizes(tmp_path: Path):
    found = images.difference(picture(tmp_path / "a.png"), picture(tmp_path / "b.png", size=401))
    assert not found.tolerable
    assert not found.same_size
