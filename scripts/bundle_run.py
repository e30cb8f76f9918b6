"""Bundle a run: what it found, what it was asked for, and the workflow that did it, in one zip."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ntk_conditioning.files import atomic, sha256
from ntk_workflow.bundle import archive, bag, crate
from ntk_workflow.bundle.run_description import ROWS, described
from ntk_workflow.cli import Parser, logger, run_main
from ntk_workflow.pages.rendering import render
from ntk_workflow.provenance.places import published
from ntk_workflow.provenance.versions import PROJECT

LEFT_OUT = ("__pycache__", ".ipynb_checkpoints", "*.egg-info")

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    known = json.loads(args.jobs.read_text(encoding="utf-8"))
    copied = [*args.files, args.jobs, *(row_paths(known, args.run) if args.include_rows else [])]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / args.run
        for path in copied:
            copy(path, folder / path)
        for path in args.workflow:
            copy(path, folder / "workflow" / inside(path))
        for path in args.own_catalogues:
            publish(path, folder / "workflow" / inside(path))
        copy(Path("CITATION.cff"), folder / "CITATION.cff")
        run = described(args, known)
        (folder / "README.md").write_text(
            render("bundle.md.j2", title=run.title, run=run.name), encoding="utf-8"
        )
        warn_of_places(folder)
        crate.write(folder, run)
        information = {
            "Bagging-Date": run.published[:10],
            "Bag-Software-Agent": f"ntk-conditioning {PROJECT}",
            "External-Identifier": args.run,
        }
        bag.make(folder, information)
        with atomic(args.output) as temporary:
            archive.pack(folder, temporary)
    size = args.output.stat().st_size / 1e6
    log.info("%d jobs, %.1f MB, sha256 %s", len(known["jobs"]), size, sha256(args.output))
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = Parser(description=__doc__)
    parser.add_argument("--run", required=True, help="name of the run")
    parser.add_argument("--files", type=Path, nargs="+", required=True, help="tables, figures, ...")
    parser.add_argument("--jobs", type=Path, required=True, help="record of the jobs (.json)")
    parser.add_argument(
        "--workflow", type=Path, nargs="+", required=True, help="files and folders of its source"
    )
    parser.add_argument("--catalogues", nargs="+", required=True, help="catalogues of the data")
    parser.add_argument("--datasets", nargs="+", required=True, help="datasets of the run")
    parser.add_argument(
        "--own-catalogues", type=Path, nargs="*", default=[], help="those that are no source"
    )
    parser.add_argument("--include-rows", action="store_true", help="put the rows in too")
    parser.add_argument("--output", type=Path, required=True, help="bundle to write (.zip)")
    return parser.parse_args(argv)


def row_paths(known: Mapping[str, Any], run: str) -> list[Path]:
    """Return the rows of a run, of which its jobs know."""
    folders = tuple(f"results/{run}/{folder}/" for folder in ROWS)
    return [Path(name) for name in known["files"] if name.startswith(folders)]


def inside(path: Path) -> Path:
    """Return where a file of the workflow's source lies: a user's own may be anywhere."""
    outside = path.is_absolute() or ".." in path.parts
    return Path("elsewhere", path.name) if outside else path


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder without what Python leaves in it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignore = shutil.ignore_patterns(*LEFT_OUT)
        shutil.copytree(source, target, ignore=ignore, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)


def publish(source: Path, target: Path) -> None:
    """Write a user's own catalogue without absolute paths."""
    target.parent.mkdir(parents=True, exist_ok=True)
    entries = published(yaml.safe_load(source.read_text(encoding="utf-8")), Path.cwd())
    text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)
    target.write_text(text, encoding="utf-8")


def warn_of_places(folder: Path) -> None:
    """Say which files name the user's folders: a profile or a config that was edited may."""
    places = [str(place).encode() for place in (Path.cwd(), Path.home()) if place.parts[1:]]
    for path in archive.files_in(folder):
        if any(place in path.read_bytes() for place in places):
            log.warning("%s names a folder of yours", path.relative_to(folder).as_posix())


if __name__ == "__main__":
    sys.exit(main())
