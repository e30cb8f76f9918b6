"""A small bundle, and ways to make another one of its files."""

import json
import shutil
import zipfile
from pathlib import Path

from ntk_conditioning.files import sha256
from ntk_conditioning.tables.angles import ANGLES
from ntk_conditioning.tables.precision import PRECISION
from ntk_workflow.bundle import archive, bag, crate
from tests import rows

RUN = "tiny"
RECORDS = f"results/{RUN}/record"
TABLES = {name: f"results/{RUN}/tables/{name}.parquet" for name in ("angles", "precision")}
JOBS = f"{RECORDS}/jobs.json"
TEXTS = {
    f"{RECORDS}/config.yaml": "run: tiny\ntraining: null\n",
    f"{RECORDS}/versions.json": '{"python": "3.11"}\n',
    "workflow/Snakefile": "rule all:\n    input: []\n",
    "workflow/scripts/aggregate_angles.py": "print('angles')\n",
    "CITATION.cff": "cff-version: 1.2.0\n",
    "README.md": "# A title\n",
}
ADDRESSES = ["https://example.org/a.gz", "https://mirror.example.org/a.gz"]
TRAIN = {"name": "mnist/train.gz", "urls": ADDRESSES, "sha256": "0" * 64, "bytes": 12}
OWN = {"name": "own.csv", "sha256": "1" * 64, "bytes": 3}
DATA = {
    "drawn": {"title": "Drawn", "citation": "nobody"},
    "mnist": {"title": "MNIST", "licence": "CC BY-SA 3.0", "files": {"train": TRAIN}},
    "own": {"title": "My own", "homepage": "https://example.org", "files": {"x": OWN}},
}
DESCRIPTION = crate.Run(
    name=RUN,
    citation={"title": "A title", "authors": [{"name": "The authors"}], "license": "MIT"},
    published="2026-01-02T03:04:05+00:00",
    period=("2026-01-01T00:00:00+00:00", "2026-01-02T03:04:05+00:00"),
    results=list(TABLES.values()),
    data=DATA,
)


def write_payload(folder: Path) -> None:
    """Write the files of a run of two tables, without a crate."""
    for table, column in ((ANGLES, "min_angle"), (PRECISION, "ratio")):
        cells = ({"seed": seed, column: seed / 7} for seed in range(40))
        rows.write(folder / TABLES[table.name], table, *cells)
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def describe(folder: Path) -> None:
    """Write the record of the jobs and the crate's metadata of a payload."""
    (folder / JOBS).unlink(missing_ok=True)
    paths = archive.files_by_name(folder / "results")
    files = {f"results/{name}": {"sha256": sha256(path)} for name, path in paths.items()}
    described = [{"rule": f"make_{name}", "outputs": [path]} for name, path in TABLES.items()]
    (folder / JOBS).write_text(json.dumps({"files": files, "jobs": described}))
    (folder / crate.NAME).unlink(missing_ok=True)
    crate.write(folder, DESCRIPTION)


def write_bundle(target: Path, scratch: Path) -> Path:
    """Write the bundle; ``scratch`` is a folder that does not exist yet."""
    write_payload(scratch / RUN)
    describe(scratch / RUN)
    return packed(scratch / RUN, target)


def packed(folder: Path, target: Path) -> Path:
    """Make a bag of a payload and pack it."""
    bag.make(folder, {"Bagging-Date": "2026-01-02", "Bag-Software-Agent": "tests"})
    archive.pack(folder, target)
    return target


def altered(bundle: Path, scratch: Path, change, *, bagged=False, described=False) -> Path:
    """Return a bundle whose unpacked bag was changed; if asked for, with checksums made anew."""
    with zipfile.ZipFile(bundle) as opened:
        opened.extractall(scratch)
    folder, target = scratch / RUN, scratch / "altered.zip"
    change(folder)
    if described:
        describe(folder / "data")
    if bagged:
        shutil.move(folder / "data", scratch / "payload" / RUN)
        return packed(scratch / "payload" / RUN, target)
    archive.pack(folder, target)
    return target
