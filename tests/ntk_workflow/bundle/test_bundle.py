"""The parts of a bundle: archive, bag, crate, the record of jobs."""

import json
import zipfile
from pathlib import Path

import bagit
import pytest

from ntk_conditioning.files import sha256
from ntk_workflow.bundle import BundleError, archive, crate
from ntk_workflow.provenance import jobs

ADDRESSES = ["https://example.org/a.gz", "https://mirror.example.org/a.gz"]
TRAIN = {"name": "mnist/train.gz", "urls": ADDRESSES, "sha256": "0" * 64, "bytes": 12}
OWN = {"name": "own.csv", "sha256": "1" * 64, "bytes": 3}
DESCRIPTION = crate.Run(
    name="tiny",
    citation={"title": "A title", "authors": [{"name": "The authors"}], "license": "MIT"},
    published="2026-01-02T03:04:05+00:00",
    period=("2026-01-01T00:00:00+00:00", "2026-01-02T03:04:05+00:00"),
    results=["results/tiny/tables/angles.parquet"],
    data={
        "drawn": {"title": "Drawn", "citation": "nobody"},
        "mnist": {"title": "MNIST", "licence": "CC BY-SA 3.0", "files": {"train": TRAIN}},
        "own": {"title": "My own", "homepage": "https://example.org", "files": {"x": OWN}},
    },
)


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    """A crate's files, without its metadata."""
    folder, rows = tmp_path / "tiny", "results/tiny/spectra/row.parquet"
    record = "results/tiny/record/config.yaml"
    for name in (*DESCRIPTION.results, rows, record, "workflow/Snakefile", "README.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_a_bundle_is_a_bag_for_other_tools(payload: Path, tmp_path: Path):
    archive.make_bag(payload, {"Bagging-Date": "2026-01-02"})
    archive.pack(payload, tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as opened:
        opened.extractall(tmp_path / "copy")
        assert opened.namelist() == sorted(opened.namelist())
    opened = bagit.Bag(str(tmp_path / "copy/tiny"))
    assert opened.is_valid()
    assert opened.algorithms == ["sha256"]
    assert opened.info["Bagging-Date"] == "2026-01-02"
    lines = (tmp_path / "copy/tiny" / archive.TAG_MANIFEST).read_text().splitlines()
    assert lines == sorted(lines, key=lambda line: line.split()[1])


def test_a_changed_byte_is_found(payload: Path):
    archive.make_bag(payload, {"Bagging-Date": "2026-01-02"})
    (payload / "data/README.md").write_text("README.mD")
    with pytest.raises(BundleError, match=r"^data/README\.md: damaged"):
        archive.require_bag(payload)


def test_the_crate_refers_to_data_and_to_rows_as_a_folder(payload: Path):
    crate.write(payload, DESCRIPTION)
    metadata = json.loads((payload / crate.NAME).read_text())
    entities = {entity["@id"]: entity for entity in metadata["@graph"]}
    original = entities["https://example.org/a.gz"]
    assert original["sha256"] == "0" * 64
    assert original["sameAs"] == ["https://mirror.example.org/a.gz"]
    (address,) = (key for key, each in entities.items() if each.get("name") == "own.csv")
    assert address.startswith("#")
    assert entities[address]["sha256"] == "1" * 64
    (table,) = DESCRIPTION.results
    assert entities[table]["sha256"] == sha256(payload / table)
    rows = "results/tiny/spectra/"
    assert entities[rows]["description"] == "rows, one file for each job"
    assert f"{rows}row.parquet" not in entities


def test_jobs_are_followed_back_to_what_no_record_tells_of(tmp_path, monkeypatch):
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
    rows = {"inputs": ("data", str(own), "gone"), "log": (str(log),), "code": "c" * 16}
    records = {
        "row-1": jobs.Record("make_rows", start=0.5, end=2, **rows),
        "row-2": jobs.Record("make_rows", start=0.5, end=61.9, **rows),
        "table": jobs.Record("make_table", ("row-1", "row-2"), ("logs/tiny/make_table.log",)),
    }
    provenance = jobs.provenance(["table"], records.get)
    made_rows, made_table = provenance["jobs"]
    period = ("1970-01-01T00:00:00+00:00", "1970-01-01T00:01:01+00:00")
    expected = {"rule": "make_rows", "place": "digits/relu", "code": "c" * 16}
    expected |= {"inputs": ["data", f"elsewhere/{own.name}", "gone"], "start": period[0]}
    expected |= {"outputs": ["row-1", "row-2"], "end": period[1]}
    expected |= {"device": "cuda", "dtype": "float32", "host": "Linux x86_64"}
    assert made_rows == expected
    # nothing is guessed: no log, no times, no digest of code
    inputs = ["row-1", "row-2"]
    assert made_table == {"rule": "make_table", "place": "", "inputs": inputs, "outputs": ["table"]}
    assert provenance["files"]["table"] == {"sha256": sha256(Path("table")), "bytes": 5}
    assert provenance["files"]["gone"] == {}
    assert str(tmp_path.parent) not in json.dumps(provenance)
    short = [dict.fromkeys(("start", "end"), time) for time in period]
    assert jobs.period([made_table, *short, made_rows]) == period
