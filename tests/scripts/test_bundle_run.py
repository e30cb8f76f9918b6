"""Bundles of a small run that Snakemake really did, in a folder of its own."""

import getpass
import json
import os
import shutil
import socket
import zipfile
from pathlib import Path

import bundle_run
import pytest

from ntk_conditioning.files import sha256
from ntk_workflow.bundle import BundleError, archive, crate
from ntk_workflow.snakemake_internals import records
from tests.support import rows, snakemake_forks

ROOT = Path(__file__).parents[2]
BUNDLE = "results/tiny/bundle/tiny.zip"
RECORDS, TABLE = "results/tiny/record", "results/tiny/tables/angles.parquet"
JOBS = f"{RECORDS}/jobs.json"
ROW = "results/tiny/angles/infinite_ntk/drawn/relu.parquet"
CODE = "0123456789abcdef"
ADDRESSES = ["https://example.org/a.gz", "https://mirror.example.org/a.gz"]
FILES = [TABLE, f"{RECORDS}/config.yaml", f"{RECORDS}/versions.json"]
SNAKEFILE = f"""
rule make_row:
    input: "own.csv"
    output: "{ROW}"
    log: "logs/tiny/make_row/drawn/relu.log"
    params: code="{CODE}", other="fedcba9876543210"
    shell: "cp table.parquet {{output}}; echo {{params.other}} 12:00:00 device cpu > {{log}}"

rule make_tables:
    input: "{ROW}"
    output: "{TABLE}"
    log: "logs/tiny/make_tables.log"
    shell: "cp table.parquet {{output}}; echo 12:00:00 device cuda, float32 > {{log}}"
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder in which a row, a table and a figure were made."""
    folder = tmp_path_factory.mktemp("run") / "checkout"
    rows.write(folder / "table.parquet", "angles", *({"seed": seed} for seed in range(9)))
    for name in ("src/__pycache__", RECORDS):
        (folder / name).mkdir(parents=True)
    texts = {f"{RECORDS}/{name}": f"{name}\n" for name in ("config.yaml", "versions.json")}
    texts |= {"src/__pycache__/left.pyc": "left by Python", "src/code.py": "x = 1\n"}
    file = {"name": "a.gz", "urls": ADDRESSES, "sha256": "0" * 64, "bytes": 12}
    entries = {"drawn": {"title": "Drawn", "files": {"train": file}}}
    texts |= {"own.csv": "1,2\n", "datasets.yaml": json.dumps(entries)}
    for name, text in (texts | {"Snakefile": SNAKEFILE}).items():
        (folder / name).write_text(text)
    shutil.copyfile(ROOT / "CITATION.cff", folder / "CITATION.cff")
    done = snakemake_forks.run(("--cores", "1", TABLE), folder, {**os.environ})
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def here(checkout, monkeypatch):
    monkeypatch.chdir(checkout)
    yield checkout
    shutil.rmtree(Path(BUNDLE).parent, ignore_errors=True)


def bundle(*options, workflow=(), own=(), dataset="drawn", root="", source=".", output=BUNDLE):
    """Write the bundle; return the names of the files in it, which are whole."""
    arguments = ["--run=tiny", "--files", *(root + name for name in FILES), f"--root={root}"]
    arguments += [
        f"--rows={root}{ROW}",
        f"--jobs={root}{JOBS}",
        f"--source={source}",
        "--datasets",
        dataset,
        *options,
    ]
    programs = [f"{source}/{name}" for name in ("Snakefile", "src", "datasets.yaml")]
    arguments += ["--workflow", *programs, *workflow, "--own-catalogues", *own]
    arguments += ["--catalogues", f"{root}datasets.yaml", *own, f"--output={output}"]
    assert bundle_run.main(arguments) == 0
    scratch = Path(f"{output}.unpacked")
    crate.require_crate(archive.unpack(Path(output), scratch).parents[1])
    shutil.rmtree(scratch)
    with zipfile.ZipFile(output) as opened:
        return {name.removeprefix("tiny/data/") for name in opened.namelist()}


def test_jobs_of_a_run(here: Path):
    bundle()
    recorded = json.loads(Path(JOBS).read_text())
    row, table = recorded["jobs"]
    # the code's digest is not the other parameter, which is part of the command
    assert (row["rule"], row["code"]) == ("make_row", CODE)
    assert row["start"] <= row["end"]
    assert (row["inputs"], row["outputs"]) == (["own.csv"], [ROW])
    assert (table["rule"], table["inputs"]) == ("make_tables", [ROW])
    assert "device" not in row  # a line that only mentions one is no statement of the program
    assert table["device"] == "cuda"
    assert recorded["files"][TABLE] == {
        "sha256": sha256(Path(TABLE)),
        "bytes": os.stat(TABLE).st_size,
    }
    text = json.dumps(recorded)
    for private in (str(here), getpass.getuser(), socket.gethostname()):
        assert private not in text
    assert records(here)("Snakefile") is None
    assert records(here / "src")(ROW) is None
    assert not (here / "src" / ".snakemake").exists()


def test_a_bundle_is_always_the_same(here: Path, tmp_path: Path, monkeypatch):
    names = bundle()
    workflow = {"workflow/Snakefile", "workflow/src/code.py"}
    assert workflow | {*FILES, JOBS, "CITATION.cff", "README.md"} <= names
    assert not any("__pycache__" in name or name.startswith("logs") for name in names)
    assert ROW not in names
    first = Path(BUNDLE).read_bytes()
    # as a module, with a prefix before all paths, and the source elsewhere
    monkeypatch.chdir(here.parent)
    root = f"{here.name}/"
    assert names == bundle(root=root, source=here, output=here.parent / "module.zip")
    copy = tmp_path / "elsewhere"
    shutil.copytree(here, copy)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))
    bundle()
    assert Path(BUNDLE).read_bytes() == first
    assert bundle("--include-rows") - names == {ROW}


def test_the_crate_says_where_data_are_and_what_every_file_is(here, tmp_path):
    bundle()
    folder = archive.unpack(Path(BUNDLE), tmp_path).parents[1]
    graph = json.loads((folder / crate.NAME).read_text())["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    assert entities[ADDRESSES[0]]["sha256"] == "0" * 64
    assert entities[ADDRESSES[0]]["sameAs"] == ADDRESSES[1:]
    assert entities[TABLE]["sha256"] == sha256(Path(TABLE))
    (folder / TABLE).write_text("another")
    with pytest.raises(BundleError, match=r"angles\.parquet: missing, or not as the RO-Crate"):
        crate.require_crate(folder)


def test_a_users_own_data_and_files_are_not_named_by_their_place(here, tmp_path, capsys):
    (tmp_path / "secret.csv").write_text("3,4\n")
    catalogue, activation = tmp_path / "my_catalogue.yaml", Path("../swish.py")
    catalogue.write_text(f"mine: {{title: Mine, path: {tmp_path}/secret.csv}}\n")
    activation.write_text("x = 1\n")
    names = bundle(workflow=[str(activation)], own=[str(catalogue)], dataset="mine")
    assert {f"workflow/elsewhere/{name}" for name in ("my_catalogue.yaml", "swish.py")} <= names
    content = Path(BUNDLE).read_bytes()
    assert sha256(tmp_path / "secret.csv").encode() in content
    assert str(tmp_path).encode() not in content
    (tmp_path / "more").mkdir()
    other = shutil.copy(catalogue, tmp_path / "more")
    with pytest.raises(AssertionError):
        bundle(own=[str(catalogue), str(other)], dataset="mine")
    assert "two files would be elsewhere/my_catalogue.yaml" in capsys.readouterr().err
