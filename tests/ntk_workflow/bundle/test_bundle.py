"""The parts of a bundle: archive, bag, crate, the record of jobs."""

import json
import shutil
import stat
import zipfile
from pathlib import Path

import bagit
import pytest

from ntk_conditioning.files import sha256
from ntk_workflow.bundle import BundleError, archive, crate
from ntk_workflow.provenance import jobs

TABLE, ROW = "results/tiny/tables/angles.parquet", "results/tiny/spectra/row.parquet"
FILES = (TABLE, ROW, "results/tiny/record/config.yaml", "workflow/Snakefile", "README.md")
ADDRESSES = ["https://example.org/a.gz", "https://mirror.example.org/a.gz"]
TRAIN = {"name": "mnist/train.gz", "urls": ADDRESSES, "sha256": "0" * 64, "bytes": 12}
OWN = {"name": "own.csv", "sha256": "1" * 64}


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    """A crate's files, without its metadata."""
    folder = tmp_path / "tiny"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_a_bundle_is_a_bag_for_other_tools_and_a_changed_byte_is_found(payload, tmp_path):
    archive.make_bag(payload, {"Bagging-Date": "2026-01-02"})
    archive.pack(payload, tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as opened:
        opened.extractall(tmp_path / "copy")
        assert opened.namelist() == sorted(opened.namelist())
    opened = bagit.Bag(str(tmp_path / "copy/tiny"))
    assert opened.is_valid()
    assert (opened.algorithms, opened.info["Bagging-Date"]) == (["sha256"], "2026-01-02")
    lines = (tmp_path / "copy/tiny" / archive.TAG_MANIFEST).read_text().splitlines()
    assert lines == sorted(lines, key=lambda line: line.split()[1])
    assert archive.unpack(tmp_path / "a.zip", tmp_path / "again").name == "tiny"
    (payload / "data/README.md").write_text("README.mD")
    archive.pack(payload, tmp_path / "a.zip")
    with pytest.raises(BundleError, match=r"data/README\.md sha256 validation failed"):
        archive.unpack(tmp_path / "a.zip", tmp_path / "changed")


def member(name: str, **facts: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    for key, value in facts.items():
        setattr(info, key, value)
    return info


HOSTILE = {
    "../x": "may leave", "/etc/x": "may leave", "a/../../x": "may leave", "a/C:x": "has a name",
    "a/b\n": "has a name", "x": "may leave", "a//b": "may leave",
}  # fmt: skip


@pytest.mark.parametrize(
    ("members", "message"),
    [
        *(([member(name)], words) for name, words in HOSTILE.items()),
        ([member("a/b", external_attr=(stat.S_IFLNK | 0o777) << 16)], "not a plain file"),
        ([member("a/b", compress_type=zipfile.ZIP_DEFLATED)], "is compressed"),
        ([member("a/b", file_size=2000)], "a zip bomb"),
        ([member("a/b"), member("a/b")], "a name twice"),
        ([member("a/b"), member("c/d")], "files beside the one folder"),
        ([], "0 files in it"),
    ],
)
def test_an_archive_that_may_do_harm_is_refused(members, message):
    with pytest.raises(BundleError, match=message):
        archive.require_harmless(members, size=1000)


def test_the_crate_refers_to_data_and_to_rows_as_a_folder(payload: Path):
    data = {"mnist": {"title": "MNIST", "licence": "CC BY-SA 3.0", "files": {"train": TRAIN}}}
    data |= {"own": {"title": "My own", "files": {"x": OWN}}, "drawn": {"citation": "nobody"}}
    citation = {"title": "A title", "authors": [{"name": "The authors"}], "license": "MIT"}
    facts = {"citation": citation, "published": "2026-01-02T03:04:05+00:00", "period": None}
    crate.write(payload, "tiny", **facts, results=[TABLE], data=data)
    metadata = json.loads((payload / crate.NAME).read_text())
    entities = {entity["@id"]: entity for entity in metadata["@graph"]}
    assert "startTime" not in entities["#run"]
    original = entities[ADDRESSES[0]]
    assert (original["sha256"], original["sameAs"]) == ("0" * 64, ADDRESSES[1:])
    (address,) = (key for key, each in entities.items() if each.get("name") == "own.csv")
    assert address.startswith("#")
    assert entities[address]["sha256"] == "1" * 64
    assert entities[TABLE]["sha256"] == sha256(payload / TABLE)
    assert "results/tiny/spectra/" in entities
    assert ROW not in entities
    crate.require_crate(payload)
    (payload / TABLE).write_text("another")
    with pytest.raises(BundleError, match=r"angles\.parquet: missing, or not as the RO-Crate"):
        crate.require_crate(payload)


def test_jobs_are_followed_back_to_what_no_record_tells_of(tmp_path, monkeypatch):
    """In the folder ``ntk`` of another workflow, which imports this one."""
    monkeypatch.chdir(tmp_path)
    own = tmp_path.parent / f"{tmp_path.name}-own.csv"
    own.write_text("1,2")
    log = Path("ntk/logs/tiny/make_rows/digits/relu.log")
    log.parent.mkdir(parents=True)
    log.write_text(
        "12:00:00 host Linux x86_64\n12:00:00 device auto: a GPU\n"
        "12:00:00 device cuda, float32, width 8, depths 0, 1\n"
    )
    for name in ("row-1", "row-2", "table", "data"):
        Path("ntk", name).write_text(name)
    rows = {"inputs": ("ntk/data", str(own), "ntk/gone"), "log": (str(log),), "code": "c" * 16}
    made = ("ntk/row-1", "ntk/row-2")
    records = {
        made[0]: jobs.Record("make_rows", start=0.5, end=2, **rows),
        made[1]: jobs.Record("make_rows", start=0.5, end=61.9, **rows),
        "ntk/table": jobs.Record("make_table", made, ("ntk/logs/tiny/make_table.log",)),
    }
    provenance = jobs.provenance(["ntk/table"], records.get, root="ntk/")
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
    assert provenance["files"]["table"] == {"sha256": sha256(Path("ntk/table")), "bytes": 5}
    assert provenance["files"]["gone"] == {}
    assert str(tmp_path.parent) not in json.dumps(provenance)
    short = [dict.fromkeys(("start", "end"), time) for time in period]
    assert jobs.period([made_table, *short, made_rows]) == period
    shutil.rmtree("ntk")
