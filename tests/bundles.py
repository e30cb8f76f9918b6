"""A small bundle, and ways to make another one of its files."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from ntk_conditioning import tables
from ntk_conditioning.tables.angles import ANGLES
from ntk_conditioning.tables.precision import PRECISION
from ntk_workflow.bundle import archive, bag, crate, jobs, readme

RUN = "tiny"
RECORDS = f"results/{RUN}/record"
TABLES = {name: f"results/{RUN}/tables/{name}.parquet" for name in ("angles", "precision")}
JOBS = f"{RECORDS}/jobs.json"


def rows(table: tables.Table, count: int) -> pa.Table:
    """Return rows of any table, all different and sorted."""

    def values(kind: pa.DataType) -> list[object]:
        if pa.types.is_string(kind):
            return [f"v{row:03d}" for row in range(count)]
        if pa.types.is_boolean(kind):
            return [row % 2 == 0 for row in range(count)]
        return [None] * count if pa.types.is_list(kind) else list(range(count))

    columns = {c.name: pa.array(values(c.type), type=c.type) for c in table.columns}
    return tables.checked(table, pa.table(columns, schema=table.schema))


def write_payload(folder: Path) -> None:
    """Write the files of a run of two tables, without a crate."""
    tables.write(folder / TABLES["angles"], ANGLES, rows(ANGLES, 40))
    tables.write(folder / TABLES["precision"], PRECISION, rows(PRECISION, 40))
    texts = {
        f"{RECORDS}/config.yaml": "run: tiny\n",
        f"{RECORDS}/versions.json": '{"python": "3.11"}\n',
        "workflow/Snakefile": "rule all:\n    input: []\n",
        "workflow/scripts/aggregate_angles.py": "print('angles')\n",
        "CITATION.cff": "cff-version: 1.2.0\n",
        "README.md": readme.text("A title", RUN),
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def describe(folder: Path) -> None:
    """Write the record of the jobs and the crate's metadata of a payload."""
    (folder / JOBS).unlink(missing_ok=True)
    paths = archive.files_in(folder / "results")
    digests = {path.relative_to(folder).as_posix(): jobs.facts(path) for path in paths}
    described = [{"rule": f"make_{name}", "outputs": [path]} for name, path in TABLES.items()]
    (folder / JOBS).write_text(json.dumps({"files": digests, "jobs": described}))
    (folder / crate.NAME).unlink(missing_ok=True)
    crate.write(folder, description())


def description(**changes: object) -> crate.Run:
    values = {
        "name": RUN,
        "title": "A title",
        "authors": ("The authors",),
        "version": "1.0",
        "licence": "MIT",
        "engine": "9.27.1",
        "published": "2026-01-02T03:04:05+00:00",
        "period": ("2026-01-01T00:00:00+00:00", "2026-01-02T03:04:05+00:00"),
        "workflow": "workflow/Snakefile",
        "config": f"{RECORDS}/config.yaml",
        "jobs": JOBS,
        "results": tuple(TABLES.values()),
        "descriptions": {},
        "folders": {},
        "data": {
            "drawn": {"title": "Drawn", "citation": "nobody"},
            "mnist": {
                "title": "MNIST",
                "licence": "CC BY-SA 3.0",
                "url": "https://example.org/mnist",
                "files": [
                    {
                        "name": "mnist/train.gz",
                        "urls": ["https://example.org/a.gz", "https://mirror.example.org/a.gz"],
                        "sha256": "0" * 64,
                        "bytes": 12,
                    }
                ],
            },
            "own": {
                "title": "My own",
                "files": [{"name": "own.csv", "sha256": "1" * 64, "bytes": 3}],
            },
        },
    }
    return crate.Run(**{**values, **changes})  # type: ignore[arg-type]


def write_bundle(target: Path, scratch: Path) -> Path:
    """Write the bundle; ``scratch`` is a folder that does not exist yet."""
    folder = scratch / RUN
    write_payload(folder)
    describe(folder)
    bag.make(folder, {"Bagging-Date": "2026-01-02", "Bag-Software-Agent": "tests"})
    archive.pack(folder, target)
    return target


def altered(
    bundle: Path,
    scratch: Path,
    change: Callable[[Path], None],
    *,
    bagged_again: bool = False,
    described_again: bool = False,
) -> Path:
    """Return a bundle whose unpacked bag was changed; if asked for, with checksums made anew."""
    with zipfile.ZipFile(bundle) as opened:
        opened.extractall(scratch)
    folder = scratch / RUN
    change(folder)
    if described_again:
        describe(folder / "data")
    if bagged_again:
        shutil.move(folder / "data", scratch / "payload")
        shutil.rmtree(folder)
        shutil.move(scratch / "payload", folder)
        bag.make(folder, {"Bagging-Date": "2026-01-02", "Bag-Software-Agent": "tests"})
    target = scratch / "altered.zip"
    archive.pack(folder, target)
    return target
