"""Verification of a bundle: its parts at once, and by the workflow of this checkout itself.

Nothing of a bundle is executed. To make it again, only its rows, its config and its catalogues are
taken, and programs, notebooks and papers are this checkout's.
"""

import ast
import filecmp
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import jsonschema
import numpy as np
import yaml
from PIL import Image

from ntk_conditioning import tables
from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.tables import TABLES
from ntk_workflow.bundle import BundleError, archive, crate
from ntk_workflow.comparison import compare_tables, equal, read_record, read_table, table_facts

#: This checkout, whose schemas, notebooks and programs a bundle is verified with.
ROOT = Path(__file__).resolve().parents[3]
#: Tables that have no rows: one job makes each whole.
WITHOUT_ROWS = ("claim_experiments", "precision", "activations", "phase_laws")
#: Folders of a run that are made of its rows; `record` says what was asked for.
DERIVED = ("tables", "figures", "notebooks", "pages", "record")
PAGES = ("claims.md", "claims.html", "explorer.html")
#: Relative change of a number that the order of a sum may make, and of one on a page.
ROUNDING, ON_PAGES = 1e-9, 1e-6
#: That of a computed number on another processor; columns and tables that are not compared there:
#: noise over noise, bounds of rounding, trainings and random networks, which are chaotic.
OTHER_PROCESSOR = 1e-5
NOISE = re.compile(r"kappa|lambda_min|_error$|rank|floor")
CHAOTIC = {"training", "predictions", "kernels_along_training", "finite_width"}
CHAOTIC |= {"precision", "claim_experiments"}
#: A picture is the same if at most that share of its pixels differ by more than so many levels.
LEVELS, SHARE = 8, 1e-5
_NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Bundle:
    """An unpacked bundle whose parts fit together: its run, and the user's own files in it."""

    payload: Path
    run: str
    config: Mapping[str, Any]
    own: tuple[str, ...]
    files: int
    tables: int

    @property
    def results(self) -> Path:
        return self.payload / "results" / self.run

    @property
    def rows(self) -> list[str]:
        """The files that jobs compute, by their names in ``results``."""
        files = archive.files_by_name(self.results)
        rows = [n for n in files if "/" in n and n.split("/")[0] not in DERIVED]
        return rows + [n for n in files if n in {f"tables/{t}.parquet" for t in WITHOUT_ROWS}]


def verify(folder: Path) -> Bundle:
    """Return an unpacked bundle; `BundleError` unless bytes, crate, config and tables are whole."""
    archive.require_bag(folder)
    payload = folder / archive.PAYLOAD
    crate.require_crate(payload)
    runs = sorted((payload / "results").glob("*"))
    if len(runs) != 1:
        raise BundleError(f"{len(runs)} runs in it, not one: results/*")
    config = recorded_config(payload, runs[0].name)
    networks = [entry["file"] for entry in config["models"].values()]
    paths = sorted(runs[0].rglob("*.parquet"))
    for path in paths:
        _require_declared(path, path.relative_to(payload).as_posix())
    own = tuple(dict.fromkeys([*config["activation_files"], *networks]))
    count = len(archive.files_by_name(payload))
    return Bundle(payload, runs[0].name, config, own, count, len(paths))


def recorded_config(payload: Path, run: str) -> dict[str, Any]:
    """Return the config of a bundle's run; `BundleError` unless it passes this version's schema."""
    name = f"results/{run}/record/config.yaml"
    # a published config leaves out where files are
    config = {"data_dir": "data", "mirror": None, **read_record(payload / name)}
    schema = yaml.safe_load((ROOT / "schemas/config.schema.yaml").read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    if error := jsonschema.exceptions.best_match(validator.iter_errors(config)):
        raise BundleError(f"{name}: {'.'.join(map(str, error.path))}: {one_line(error)[:200]}")
    if config["run"] != run:
        raise BundleError(f"{name}: run is {config['run']!r}, and its folder results/{run}")
    config = {"models": {}, "activation_files": [], **config}
    for path in config["catalogues"]:
        if not (payload / "workflow" / inside(path)).is_file():
            raise BundleError(f"{name}: catalogues has {path}, and the bundle no such file")
    return config


def inside(path: str) -> str:
    """Return where a file that a published config names lies in the bundled workflow.

    >>> inside("datasets.yaml"), inside("…/mine.yaml"), inside("../mine.yaml")
    ('datasets.yaml', 'elsewhere/mine.yaml', 'elsewhere/mine.yaml')
    """
    parts = PurePosixPath(path).parts
    outside = path.startswith("/") or ".." in parts or "…" in parts
    return f"elsewhere/{PurePosixPath(path).name}" if outside else path


def _require_declared(path: Path, name: str) -> None:
    try:
        declared = table_facts(path).get(b"table", b"").decode()
        if declared not in TABLES:
            raise BundleError("no table that this version of the package declares")
        tables.read(path, TABLES[declared])
    except UserError as error:
        raise BundleError(f"{name}: {str(error).removeprefix(f'{path}: ')}") from None


def rerun(bundle: Bundle, scratch: Path) -> str:
    """Return what was made again from the rows and is the same, in a line.

    Raises:
        BundleError: if the bundle has no rows, or has a derived file otherwise than the rows give.
    """
    results = make_again(bundle, scratch / "rerun")
    same_lock = _software(bundle.results) == _software(results)
    names = derived_files(bundle.results) | derived_files(results)
    if problems := differences(names, bundle.results, results, same_lock=same_lock):
        more = f"; and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise BundleError("; ".join(problems[:20]) + more)
    drawn = sum(name.startswith("figures/") for name in names)
    pictures = "are the same" if same_lock else "not compared: the run had another lock or system"
    kept = ", ".join(name for name in WITHOUT_ROWS if f"tables/{name}.parquet" in bundle.rows)
    return (
        f"{len(names) - drawn} tables, pages and notebooks made again from the rows are the same; "
        f"{drawn} pictures {pictures}; not checked: the rows, the tables {kept}"
    )


def make_again(bundle: Bundle, folder: Path) -> Path:
    """Let the workflow make all that follows from a bundle's rows; return the run's folder."""
    if not any(not name.startswith(("tables/", "datasheets/")) for name in bundle.rows):
        raise BundleError("it has no rows (include_rows: false): nothing can be made from them")
    results = folder / "results" / bundle.run
    for name in bundle.rows:
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(bundle.results / name, results / name)
    for path in folder.rglob("*"):
        os.utime(path, (1e9, 1e9))  # of one time, so that no row is older than another
    run_workflow(bundle, folder, ["all"], "--rerun-triggers", "mtime")
    return results


def derived_files(results: Path) -> set[str]:
    """Return the files of a run that are made of its rows."""
    folders = ("tables/", "figures/", "notebooks/")
    return {
        name for name in archive.files_by_name(results) if name in PAGES or name.startswith(folders)
    }


def differences(names: set[str], there: Path, here: Path, *, same_lock: bool) -> list[str]:
    """Return a line for each file of a bundle that differs from the one that was made again."""
    found = {name: _difference(name, there, here, same_lock=same_lock) for name in sorted(names)}
    return [f"{name}: {problem}" for name, problem in found.items() if problem]


def _software(results: Path) -> dict[str, Any]:
    versions = read_record(results / "record/versions.json")
    return {name: version for name, version in versions.items() if name != "ntk-conditioning"}


def _difference(name: str, there: Path, here: Path, *, same_lock: bool) -> str | None:
    """Return how a file of a bundle differs from the one that was made again, or None."""
    a, b = there / name, here / name
    if not (a.is_file() and b.is_file()):
        return "missing" if b.is_file() else "an extra file, which this run does not make"
    if filecmp.cmp(a, b, shallow=False):
        return None
    if a.suffix == ".parquet":
        (x, keys), (y, _) = read_table(a), read_table(b)
        return _told(compare_tables(x, y, keys, tolerance=ROUNDING))
    if name in PAGES:
        return _compared_texts(*(path.read_text("utf-8", "replace") for path in (a, b)))
    if a.suffix == ".ipynb":  # its outputs are the figure
        same = notebook_cells(a) == notebook_cells(b)
        return None if same else "its cells are not those of this checkout's notebook"
    if not same_lock:
        return None
    if a.suffix == ".png":
        return _compared_pictures(a, b)
    # where the picture is the same to the byte, this machine draws as the run's did
    x, y = a.with_suffix(".png"), b.with_suffix(".png")
    same = x.is_file() and y.is_file() and filecmp.cmp(x, y, shallow=False)
    return "comes out different" if same else None


def notebook_cells(path: Path) -> list[str]:
    """Return the sources of a notebook's cells; `BundleError` if it has none.

    Code is compared but for its layout: papermill formats parameters with black where that is
    installed. Nothing is executed.
    """
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return [
            ast.unparse(ast.parse(text)) if cell["cell_type"] == "code" else text
            for cell in cells
            for text in ["".join(cell["source"])]
        ]
    except (ValueError, LookupError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise BundleError(f"{path.name}: no notebook ({one_line(error)})") from None


def _told(difference: Mapping[str, Any]) -> str | None:
    """Return the first difference of two tables in words, the bundle's first, or None."""
    if equal(difference):
        return None
    for column in difference["columns"]:
        e = column["examples"][0]
        return f"{column['name']} is {e['a']}, and {e['b']} when made again, at {e['where']}"
    rows = len(difference["only_a"]), len(difference["only_b"])
    return f"{rows[0]} rows too many, {rows[1]} missing, or other columns, when made again"


def _compared_texts(a: str, b: str) -> str | None:
    """Return how two pages differ, None if only in the last digits of numbers."""
    words = zip(_NUMBER.split(a), _NUMBER.split(b), strict=False)
    numbers = _NUMBER.findall(a), _NUMBER.findall(b)
    if len(numbers[0]) != len(numbers[1]) or any(x != y for x, y in words):
        return "its text is another one when made again"
    for x, y in zip(*numbers, strict=True):
        if x != y and not math.isclose(float(x), float(y), rel_tol=ON_PAGES):
            return f"says {x}, and {y} when made again"
    return None


def _compared_pictures(a: Path, b: Path) -> str | None:
    try:
        with Image.open(a) as one, Image.open(b) as other:
            if one.size != other.size:  # before a large one is unpacked
                return "comes out in another size"
            x, y = (np.asarray(image.convert("RGBA"), dtype=np.int16) for image in (one, other))
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        return f"no picture ({one_line(error)})"
    share = float((np.abs(x - y).max(axis=2) > LEVELS).mean())
    return f"comes out different in {share:.2%} of its pixels" if share > SHARE else None


def recompute(bundle: Bundle, count: int, *, mirror: str, scratch: Path) -> str:
    """Return what of randomly chosen files of rows was computed again from the data, in a line.

    Raises:
        BundleError: if a job fails, or gives other rows.
    """
    rows = [name for name in bundle.rows if name.endswith(".parquet")]
    drawn = random.SystemRandom().sample(sorted(rows), min(count, len(rows)))
    folder = scratch / "recompute"
    targets = [f"results/{bundle.run}/{name}" for name in drawn]
    run_workflow(bundle, folder, targets, mirror=mirror)
    here = folder / "results" / bundle.run
    pairs = {name: (read_table(bundle.results / name), read_table(here / name)) for name in drawn}
    # eigenvalues that are the same to the last bit: this processor rounds as the run's did
    exact = any(
        "eigenvalues" in x and equal(compare_tables(x, y, keys))
        for (x, keys), (y, _) in pairs.values()
    )
    problems = []
    for name, ((x, keys), (y, _)) in pairs.items():
        told = _told(compare_tables(x, y, keys, tolerance=ROUNDING))
        if told and not exact:
            noise = [column for column in x if NOISE.search(column) and column not in keys]
            x, y = (frame.drop(columns=noise, errors="ignore") for frame in (x, y))
            chaotic = CHAOTIC & {*PurePosixPath(name).with_suffix("").parts}
            told = None if chaotic else _told(compare_tables(x, y, keys, tolerance=OTHER_PROCESSOR))
        problems += [f"{name}: {told}"] if told else []
    if problems:
        raise BundleError("; ".join(problems))
    tenth = max(1, len(rows) // 10)
    chance = 1 - math.comb(len(rows) - tenth, len(drawn)) / math.comb(len(rows), len(drawn))
    return (
        f"{len(drawn)} of {len(rows)} files of rows, drawn at random, computed again are the same; "
        f"numbers forged in a tenth of the files are found so with a probability of {chance:.2g}, "
        f"in one file with {len(drawn) / len(rows):.2g}"
    )


def run_workflow(
    bundle: Bundle, folder: Path, targets: Sequence[str], *options: str, mirror: str = ""
) -> None:
    """Let this checkout's workflow, with a bundle's config, make files in a folder.

    Raises:
        BundleError: if the run needs its author's Python files, or a job fails.
    """
    if bundle.own:
        raise BundleError(
            f"its run needs {bundle.own[0]}, and verification runs no Python of a bundle: read "
            f"that file, then snakemake --configfile results/{bundle.run}/record/config.yaml"
        )
    folder.mkdir(parents=True, exist_ok=True)
    catalogues = [
        bundle.payload / "workflow" / inside(path) for path in bundle.config["catalogues"]
    ]
    near = mirror if "://" in mirror or not mirror else str(Path(mirror).resolve())
    places = {"catalogues": [*map(str, catalogues)], "data_dir": "data", "mirror": near or None}
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({**bundle.config, **places}), encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", *targets, "--snakefile", str(ROOT / "Snakefile")]
    command += ["--directory", str(folder), "--configfile", str(config), "--cores", "all"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([*command, "--logger", "console", *options], env=environment)
    if done.returncode:
        raise BundleError("the workflow cannot make it again: what it says is above")
