"""Verification of a bundle: its parts at once, and by the workflow of this checkout itself.

Nothing of a bundle is executed. To make it again, only its rows, its config and its catalogues are
taken, and programs, notebooks and papers are this checkout's.
"""

import filecmp
import math
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import yaml
from PIL import Image, ImageChops

from ntk_conditioning.errors import UserError
from ntk_conditioning.tables import TABLES
from ntk_workflow import comparison
from ntk_workflow.bundle.archive import files_by_name
from ntk_workflow.config import SCHEMAS, read_yaml, schema_errors, user_programs
from ntk_workflow.pages.rendering import where

#: This checkout, whose notebooks and programs a bundle is verified with.
ROOT = SCHEMAS.parent
#: Tables that have no rows: one job makes each whole.
WHOLE = [f"tables/{table.name}.parquet" for table in TABLES.values() if table.whole]
#: What is made of the rows; notebooks are beside their figures.
PAGES = ("claims.md", "claims.html", "explorer.html")
DERIVED = ("tables/", "figures/", *PAGES)
#: Relative change of a number that the order of a sum may make, and of one on a page.
ROUNDING, ON_PAGES = 1e-9, 1e-6
#: That of a computed number on another processor; columns and tables that are not compared there:
#: noise over noise, bounds of rounding, and what is chaotic.
OTHER_PROCESSOR = 1e-5
NOISE = "kappa|lambda_min|_error$|rank|floor"
CHAOTIC = {table.name for table in TABLES.values() if table.chaotic}
#: A picture is the same if at most that share of its pixels differ by more than so many levels.
LEVELS, SHARE = 8, 1e-5
_NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")


def verify(results: Path) -> tuple[dict[str, Any], int]:
    """Return the recorded config of a bundle's run, and how many tables it has.

    `UserError` unless config and tables are as this version's schemas have them.
    """
    # a published config leaves out where files are
    config: dict[str, Any] = {"data_dir": "data", "mirror": None}
    config |= read_yaml(results / "record/config.yaml", trusted=False)
    problems = schema_errors(config, read_yaml(SCHEMAS / "config.schema.yaml"))
    if config.get("run") != results.name:
        problems.append(f"run is not {results.name}")
    if problems:
        raise UserError(f"record/config.yaml: {problems[0]}")
    paths = sorted(results.rglob("*.parquet"))
    for path in paths:
        schema = pq.read_schema(path)
        table = TABLES.get((schema.metadata or {}).get(b"table", b"").decode())
        if not table or schema.remove_metadata() != table.schema.remove_metadata():
            name = path.relative_to(results)
            raise UserError(f"{name}: not a table as this version of the package declares it")
    return config, len(paths)


def files_of_rows(results: Path) -> list[str]:
    """Return the files that jobs compute, by their names in ``results``."""
    others = (*DERIVED, "notebooks/", "record/")
    names = files_by_name(results)
    return [name for name in names if name in WHOLE or not name.startswith(others)]


def derived_files(results: Path) -> set[str]:
    """Return the files of a run that are made of its rows."""
    return {name for name in files_by_name(results) if name.startswith(DERIVED)}


def rerun(results: Path, config: Mapping[str, Any], scratch: Path) -> str:
    """Return what was made again from the rows and is the same, in a line; or `UserError`."""
    again = make_again(results, config, scratch)
    paths = (run / "record/versions.json" for run in (results, again))
    here, there = (read_yaml(path, trusted=False) | {comparison.PROJECT: None} for path in paths)
    same_software = here == there
    names = derived_files(results) | derived_files(again)
    if problems := differences(names, results, again, same_software=same_software):
        more = f"; and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise UserError("; ".join(problems[:20]) + more)
    drawn = sum(name.startswith("figures/") for name in names)
    pictures = "are the same" if same_software else "not compared: another lock or system"
    kept = ", ".join(["the rows", "the notebooks", *(name for name in WHOLE if name in names)])
    return (
        f"{len(names) - drawn} tables and pages made again from the rows are the same; {drawn} "
        f"pictures {pictures}; not checked: {kept}"
    )


def make_again(results: Path, config: Mapping[str, Any], folder: Path) -> Path:
    """Let the workflow make all that follows from a bundle's rows; return the run's folder."""
    rows, again = files_of_rows(results), folder / "results" / results.name
    if all(name.startswith(("tables/", "datasheets/")) for name in rows):
        raise UserError("it has no rows (include_rows: false): nothing can be made from them")
    for name in rows:
        (again / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(results / name, again / name)
        os.utime(again / name, (1e9, 1e9))  # of one time, so that no row is older than another
    run_workflow(results, config, folder, ["all", "--rerun-triggers", "mtime"])
    return again


def differences(names: set[str], there: Path, here: Path, *, same_software: bool) -> list[str]:
    """Return a line for each file of a bundle that differs from the one that was made again."""
    lines = []
    for name in sorted(names):
        a, b = there / name, here / name
        problem = ""
        if not (a.is_file() and b.is_file()):
            problem = "missing" if b.is_file() else "an extra file, which this run does not make"
        elif filecmp.cmp(a, b, shallow=False):
            continue
        elif a.suffix == ".parquet":
            problem = compared_tables(a, b, ROUNDING)
        elif name in PAGES:
            texts = [path.read_text("utf-8", "replace") for path in (a, b)]
            same = _NUMBER.split(texts[0]) == _NUMBER.split(texts[1])
            x, y = (np.array(_NUMBER.findall(text), float) for text in texts)
            same = same and np.allclose(x, y, rtol=ON_PAGES, atol=0)
            problem = "" if same else "its text differs when made again"
        elif same_software and a.suffix == ".png":
            problem = compared_pictures(a, b)
        elif same_software:  # a PDF: this machine draws as the run's if the picture is the same
            same = filecmp.cmp(a.with_suffix(".png"), b.with_suffix(".png"), shallow=False)
            problem = "comes out different" if same else ""
        lines += [f"{name}: {problem}"] if problem else []
    return lines


def compared_tables(a: Path, b: Path, tolerance: float, without: str = "^$") -> str:
    """Return the first difference of two tables, the bundle's first; nothing if there is none."""
    difference = comparison.compare_tables(a, b, tolerance=tolerance, without=without)
    if difference["equal"]:
        return ""
    for column in difference["columns"]:
        e = column["examples"][0]
        row = where(e, difference["keys"])
        return f"{column['name']} is {e['a']}, and {e['b']} when made again, at {row}"
    rows = len(difference["only_a"]), len(difference["only_b"])
    return f"{rows[0]} rows too many, {rows[1]} missing, or other columns, when made again"


def compared_pictures(a: Path, b: Path) -> str:
    """Return how two pictures differ; nothing if only in a few pixels."""
    with Image.open(a) as x, Image.open(b) as y:
        if x.size != y.size:  # before a large one is unpacked
            return "comes out in another size"
        change = np.asarray(ImageChops.difference(x.convert("RGB"), y.convert("RGB")))
    share = float((change.max(axis=2) > LEVELS).mean())
    return f"comes out different in {share:.2%} of its pixels" if share > SHARE else ""


def recompute(
    results: Path, config: Mapping[str, Any], count: int, mirror: str, scratch: Path
) -> str:
    """Return which rows, drawn at random, were computed again, in a line; or `UserError`."""
    rows = sorted(name for name in files_of_rows(results) if name.endswith(".parquet"))
    if not rows:  # without a target all would be made
        raise UserError("it has no rows (include_rows: false): none can be computed again")
    drawn = random.SystemRandom().sample(rows, min(count, len(rows)))
    targets = [f"results/{results.name}/{name}" for name in drawn]
    near = mirror if "://" in mirror else str(Path(mirror).resolve())
    run_workflow(results, {**config, "mirror": near}, scratch, targets)
    again = scratch / "results" / results.name
    pairs = {name: (results / name, again / name) for name in drawn}
    # spectra that are the same to the last bit: this processor rounds as the run's did
    exact = any(n.startswith("spectra/") and not compared_tables(*pairs[n], 0.0) for n in pairs)
    problems = []
    for name, pair in pairs.items():
        problem = compared_tables(*pair, ROUNDING)
        if problem and not exact:
            chaotic = CHAOTIC & {*PurePosixPath(name).with_suffix("").parts}
            problem = "" if chaotic else compared_tables(*pair, OTHER_PROCESSOR, without=NOISE)
        problems += [f"{name}: {problem}"] if problem else []
    if problems:
        raise UserError("; ".join(problems))
    tenth = max(1, len(rows) // 10)
    chance = 1 - math.comb(len(rows) - tenth, len(drawn)) / math.comb(len(rows), len(drawn))
    return (
        f"{len(drawn)} of {len(rows)} files of rows, drawn at random, computed again are the same; "
        f"numbers forged in a tenth of the files are found so with a probability of {chance:.2g}, "
        f"in one file with {len(drawn) / len(rows):.2g}"
    )


def run_workflow(
    results: Path, config: Mapping[str, Any], folder: Path, arguments: Sequence[str]
) -> None:
    """Let this checkout's workflow, with a bundle's config, make files; or `UserError`."""
    if own := user_programs(config):
        raise UserError(
            f"its run needs {own[0]}, and verification runs no Python of a bundle: read "
            f"that file, then snakemake --configfile results/{results.name}/record/config.yaml"
        )
    folder.mkdir(parents=True, exist_ok=True)
    settings = {**config, "catalogues": [], "data_dir": "data"}
    for path in map(PurePosixPath, config["catalogues"]):
        outside = {"..", "…", "/"} & {*path.parts}
        inside = f"elsewhere/{path.name}" if outside else path
        entries = read_yaml(results.parents[1] / "workflow" / inside, trusted=False)
        for entry in entries.values():
            for keys, key in ((entry, "path"), (entry.get("options", {}), "alignments")):
                data = (ROOT / keys.get(key, "")).resolve()
                if not (data.is_relative_to(ROOT) and data.exists()):  # the author's own
                    keys[key] = f"…/{data.name}"
        settings["catalogues"].append(f"catalogue-{len(settings['catalogues'])}.yaml")
        text = yaml.safe_dump(entries)
        (folder / settings["catalogues"][-1]).write_text(text, encoding="utf-8")
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", *arguments, "--cores", "all"]
    command += ["--logger", "console", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--directory", str(folder), "--configfile", str(folder / "config.yaml")]
    if subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}).returncode:
        raise UserError("the workflow cannot make it again: what it says is above")
