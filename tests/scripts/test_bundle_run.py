"""Bundles of a small run that Snakemake really did, in a folder of its own."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import bundle_run
import pytest
import record_jobs
import run_notebook
import verify_bundle
from PIL import Image

from ntk_conditioning.files import sha256
from ntk_workflow.bundle import rerender
from ntk_workflow.plan.cells import Grid
from ntk_workflow.provenance.snakemake_records import Records
from tests.bundles import TABLES, write_payload

ROOT = Path(__file__).parents[2]
RESULTS = "results/tiny"
FIGURE = "liu2023relu/fig4_g"
CELL = f"{RESULTS}/spectra/infinite_ntk/drawn/relu/depth-1/seed-1.parquet"
CODE = "0123456789abcdef"
GRID = Grid(
    kernels=("infinite_ntk",), activations=("relu",), depths={"drawn": [1]}, seeds=(1,), drawn=()
).to_json()
NO_GRID = Grid(kernels=(), activations=(), depths={}, seeds=(), drawn=()).to_json()
SNAKEFILE = f"""
rule make_cell:
    input: "own.csv"
    output: "{CELL}"
    log: "logs/tiny/make_cell/seed-1.log"
    params: code="{CODE}", other="fedcba9876543210"
    shell: "cp table.parquet {{output}}; echo {{params.other}} 12:00:00 device cpu > {{log}}"

rule make_tables:
    input: "{CELL}"
    output: "{TABLES["angles"]}"
    log: "logs/tiny/make_tables.log"
    shell: "cp table.parquet {{output}}"
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder in which a cell, a table and a figure were made."""
    folder = tmp_path_factory.mktemp("run") / "checkout"
    write_payload(folder)
    shutil.rmtree(folder / "workflow")
    shutil.move(folder / TABLES["angles"], folder / "table.parquet")
    (folder / "own.csv").write_text("1,2\n")
    (folder / "Snakefile").write_text(SNAKEFILE)
    (folder / "src" / "__pycache__").mkdir(parents=True)
    (folder / "src" / "__pycache__" / "left.pyc").write_text("left by Python")
    (folder / "src" / "code.py").write_text("x = 1\n")
    shutil.copyfile(ROOT / "CITATION.cff", folder / "CITATION.cff")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "snakemake", "--cores", "1", TABLES["angles"]]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return folder


@pytest.fixture
def here(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(checkout)
    yield checkout
    shutil.rmtree(checkout / RESULTS / "bundle", ignore_errors=True)


def files() -> list[str]:
    return [*TABLES.values(), f"{RESULTS}/record/config.yaml", f"{RESULTS}/record/versions.json"]


def record(*more: str) -> dict[str, object]:
    """Record the jobs; return what is written."""
    output = f"{RESULTS}/record/jobs.json"
    logs = json.dumps({"make_cell": r"logs/(?P<run>[^/]+)/make_cell/seed\-(?P<seed>\d+)\.log$"})
    arguments = [f"--results={RESULTS}", "--files", *files(), *more, f"--main-grid={NO_GRID}"]
    arguments += [f"--study-grid={GRID}", f"--logs={logs}", f"--output={output}"]
    assert record_jobs.main(arguments) == 0
    return json.loads(Path(output).read_text())  # type: ignore[no-any-return]


def bundle(
    *more: str, data: dict[str, object] | None = None, more_files: Sequence[str] = ()
) -> Path:
    output = Path(f"{RESULTS}/bundle/tiny.zip")
    arguments = ["--run=tiny", "--engine=9.27.1", "--files", *files(), *more_files]
    arguments += [f"--jobs={RESULTS}/record/jobs.json", f"--data={json.dumps(data or {})}"]
    arguments += [f"--output={output}", "--workflow", "Snakefile", "src", *more]
    assert bundle_run.main(arguments) == 0
    return output


def names(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as opened:
        return {name.removeprefix("tiny/data/") for name in opened.namelist()}


def test_snakemakes_records_are_read(here: Path):
    found = Records(here)(CELL)
    assert found is not None
    assert (found.rule, found.inputs) == ("make_cell", ("own.csv",))
    assert found.log == ("logs/tiny/make_cell/seed-1.log",)
    assert found.code == CODE  # and not the other parameter, which is part of the command
    assert found.start is not None
    assert found.end is not None
    assert found.start <= found.end
    assert found.checksums == {"own.csv": sha256(Path("own.csv"))}
    assert Records(here)("Snakefile") is None
    assert Records(here / "src")(CELL) is None
    assert not (here / "src" / ".snakemake").exists()


def test_jobs_of_a_run(here: Path):
    found = record()
    cell, table = found["jobs"]  # type: ignore[misc]
    assert cell["wildcards"] == {"run": "tiny", "seed": "1"}
    assert cell["code"] == CODE
    assert (cell["inputs"], cell["outputs"]) == (["own.csv"], [CELL])
    assert "device" not in cell  # a line that only mentions one is no statement of the program
    assert (table["rule"], table["inputs"]) == ("make_tables", [CELL])
    text = json.dumps(found)
    for private in (str(here), getpass.getuser(), socket.gethostname()):
        assert private not in text


def test_a_bundle_is_whole_and_always_the_same(here: Path, tmp_path: Path, monkeypatch):
    record()
    first = bundle().read_bytes()
    assert verify_bundle.main([f"{RESULTS}/bundle/tiny.zip"]) == 0
    copy = tmp_path / "elsewhere"
    shutil.copytree(here, copy)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))
    record()
    assert bundle().read_bytes() == first


def test_what_is_in_a_bundle(here: Path):
    record()
    found = names(bundle())
    assert {*files(), f"{RESULTS}/record/jobs.json", "CITATION.cff", "README.md"} <= found
    assert {"workflow/Snakefile", "workflow/src/code.py"} <= found
    assert not any("__pycache__" in name or name.startswith("logs") for name in found)
    assert CELL not in found
    with_cells = names(bundle("--include-cells"))
    assert with_cells - found == {CELL}
    assert verify_bundle.main([f"{RESULTS}/bundle/tiny.zip"]) == 0


def test_a_users_own_data_and_files_are_not_told_by_their_place(here: Path, tmp_path: Path):
    record()
    (tmp_path / "secret.csv").write_text("3,4\n")
    own = tmp_path / "my_catalogue.yaml"
    own.write_text(f"mine: {{title: Mine, path: {tmp_path}/secret.csv}}\n")
    activation = tmp_path / "swish.py"
    activation.write_text("x = 1\n")
    data = {"mine": {"title": "Mine", "path": str(tmp_path / "secret.csv")}}
    path = bundle(str(activation), f"--catalogues={own}", data=data)
    found = names(path)
    assert {f"workflow/elsewhere/{name}" for name in ("my_catalogue.yaml", "swish.py")} <= found
    content = path.read_bytes()
    assert sha256(tmp_path / "secret.csv").encode() in content
    assert str(tmp_path).encode() not in content
    assert verify_bundle.main([str(path)]) == 0


def test_a_file_that_names_a_folder_of_the_users(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", "/home/somebody")
    record()
    Path("profile.yaml").write_text("work: /home/somebody/work\n")
    bundle("profile.yaml")
    Path("profile.yaml").unlink()
    assert "workflow/profile.yaml names a folder of yours" in capsys.readouterr().err


def test_results_without_records(here: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record_jobs, "Records", lambda _folder: lambda _path: None)
    assert record()["jobs"] == []
    for name in files():
        os.utime(name, (1e9, 1e9))
    path = bundle()
    assert verify_bundle.main([str(path)]) == 0
    with zipfile.ZipFile(path) as opened:
        graph = json.loads(opened.read("tiny/data/ro-crate-metadata.json"))["@graph"]
    root, run = (next(e for e in graph if e["@id"] == name) for name in ("./", "#run"))
    assert root["datePublished"] == "2001-09-09T01:46:40+00:00"
    assert "startTime" not in run


def test_a_file_that_is_missing_or_another_one(here: Path, capsys: pytest.CaptureFixture[str]):
    arguments = [f"--results={RESULTS}", "--files", "none", f"--main-grid={NO_GRID}"]
    arguments += [f"--study-grid={GRID}", "--logs={}", "--output=jobs.json"]
    assert record_jobs.main(arguments) == 2
    assert "none does not exist" in capsys.readouterr().err
    Path("own.csv").write_text("other data\n")
    assert record_jobs.main([a if a != "none" else TABLES["angles"] for a in arguments]) == 2
    assert "own.csv is not the file that a job has read" in capsys.readouterr().err
    Path("own.csv").write_text("1,2\n")


@pytest.mark.slow
def test_figures_are_drawn_again(
    here: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    outputs = [f"{RESULTS}/figures/{FIGURE}.{kind}" for kind in ("pdf", "png")]
    parameters = json.dumps(dict(zip(("pdf", "png"), outputs, strict=True)))
    arguments = [str(ROOT / f"notebooks/{FIGURE}.ipynb"), f"--parameters={parameters}"]
    arguments += ["--output=executed.ipynb", "--failed=failed.ipynb", "--outputs", *outputs]
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    assert run_notebook.main(arguments) == 0
    record(*outputs)
    path = bundle(more_files=outputs)
    capsys.readouterr()
    assert verify_bundle.main([str(path), "--render"]) == 0
    said = capsys.readouterr().err
    assert f"{FIGURE}: the same" in said
    assert "drawn with this checkout's notebook, which is not the run's" in said  # unknown by whom


@pytest.mark.parametrize(
    ("drawn", "word"),
    [
        ("other", "comes out different in"),
        ("larger", "comes out in another size"),
        ("none", "cannot be drawn: a reason"),
        ("unknown", "this checkout has no such figure"),
    ],
)
def test_figures_that_come_out_different(
    here: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    drawn: str,
    word: str,
):
    figure = "liu2023relu/fig99_none" if drawn == "unknown" else FIGURE
    archived = Path(f"{RESULTS}/figures/{figure}.png")
    archived.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (100, 80), "white").save(archived)

    def draw(figure: str, _spec: object, _config: object, scratch: Path, results: Path):
        target = scratch / results / "figures" / f"{figure}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        picture = Image.new("RGB", (101 if drawn == "larger" else 100, 80), "white")
        picture.putpixel((3, 3), (0, 0, 0))
        picture.save(target)
        return f"{figure}: cannot be drawn: a reason" if drawn == "none" else None

    monkeypatch.setattr(rerender, "draw", draw)
    record(str(archived))
    path = bundle(more_files=[str(archived)])
    archived.unlink()
    assert verify_bundle.main([str(path)]) == 0
    assert verify_bundle.main([str(path), "--render"]) == 2
    assert f"{path}: {figure}: {word}" in capsys.readouterr().err.splitlines()[-1]
