"""Bundle a run: what it found, what it was asked for, and the workflow that did it, in one zip."""

import argparse
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from ntk_conditioning.errors import UserError
from ntk_conditioning.files import atomic, scratch_folder, sha256, write_text
from ntk_workflow.bundle import archive, crate
from ntk_workflow.cli import Argv, Parser, logger, run_main
from ntk_workflow.pages.rendering import render
from ntk_workflow.provenance import jobs
from ntk_workflow.provenance.digests import LEFT_OUT
from ntk_workflow.provenance.places import published

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> None:
    args = parse(argv)
    known = json.loads(args.jobs.read_text(encoding="utf-8"))

    def name(path: Path) -> str:
        return path.as_posix().removeprefix(args.root)

    rows = [Path(args.root + name) for name in known["files"] if is_row(name, args.run)]
    catalogues = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in args.catalogues]
    entries = {name: entry for catalogue in catalogues for name, entry in catalogue.items()}
    period, record = jobs.period(known["jobs"]), f"results/{args.run}/record/"
    # where no job states a time, the run is as old as its newest file
    newest = jobs.iso(max(path.stat().st_mtime for path in args.files))
    run = crate.Run(
        name=args.run,
        citation=yaml.safe_load((args.source / "CITATION.cff").read_text(encoding="utf-8")),
        published=period[1] if period else newest,
        period=period,
        results=[each for each in map(name, args.files) if not each.startswith(record)],
        data={name: entries[name] for name in args.datasets},
    )
    places = Counter(inside(path, args.source) for path in [*args.workflow, *args.own_catalogues])
    if twice := [str(place) for place, count in places.items() if count > 1]:
        message = f"two files would be {twice[0]} in the bundle; give one of them another name"
        raise UserError(message)
    with scratch_folder() as scratch:
        folder = scratch / args.run
        for path in [*args.files, args.jobs, *(rows if args.include_rows else [])]:
            copy(path, folder / name(path))
        for path in args.workflow:
            copy(path, folder / "workflow" / inside(path, args.source))
        for path in args.own_catalogues:  # without absolute paths
            entries = published(yaml.safe_load(path.read_text(encoding="utf-8")), Path.cwd())
            text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)
            write_text(folder / "workflow" / inside(path, args.source), text)
        copy(args.source / "CITATION.cff", folder / "CITATION.cff")
        readme = render("bundle.md.j2", title=run.citation["title"], run=run.name)
        write_text(folder / "README.md", readme)
        warn_of_places(folder)
        crate.write(folder, run)
        archive.make_bag(folder, crate.bag_info(run))
        with atomic(args.output) as temporary:
            archive.pack(folder, temporary)
    size = args.output.stat().st_size / 1e6
    log.info("%d jobs, %.1f MB, sha256 %s", len(known["jobs"]), size, sha256(args.output))


def parse(argv: Argv) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = Parser(description=__doc__)
    paths: dict[str, Any] = {"type": Path, "nargs": "+", "required": True}
    parser.add_argument("--run", required=True, help="name of the run")
    parser.add_argument("--files", **paths, help="tables, figures, ...")
    parser.add_argument("--jobs", type=Path, required=True, help="record of the jobs (.json)")
    parser.add_argument("--root", default="", help="what names of files begin with, left out")
    parser.add_argument("--source", type=Path, default=Path(), help="folder of the workflow")
    parser.add_argument("--workflow", **paths, help="files and folders of its source")
    parser.add_argument("--catalogues", **paths, help="catalogues of the data")
    parser.add_argument("--datasets", nargs="+", required=True, help="datasets of the run")
    own = "those that are no source"
    parser.add_argument("--own-catalogues", type=Path, nargs="*", default=[], help=own)
    parser.add_argument("--include-rows", action="store_true", help="put the rows in too")
    parser.add_argument("--output", type=Path, required=True, help="bundle to write (.zip)")
    return parser.parse_args(argv)


def inside(path: Path, source: Path) -> Path:
    """Return where a file of the workflow's source lies: a user's own may be anywhere."""
    if source in path.parents:
        return path.relative_to(source)
    outside = path.is_absolute() or ".." in path.parts
    return Path("elsewhere", path.name) if outside else path


def is_row(name: str, run: str) -> bool:
    """Return whether a file has rows, or a datasheet, of which the run's tables are made."""
    parts = Path(name).parts
    return parts[:2] == ("results", run) and parts[2] != "tables" and name.endswith(".parquet")


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder without what Python leaves in it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignore = shutil.ignore_patterns(*LEFT_OUT)
        shutil.copytree(source, target, ignore=ignore, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)


def warn_of_places(folder: Path) -> None:
    """Say which files name the user's folders: a profile or a config that was edited may."""
    places = [str(place).encode() for place in (Path.cwd(), Path.home()) if place.parts[1:]]
    for name, path in archive.files_by_name(folder).items():
        if any(place in path.read_bytes() for place in places):
            log.warning("%s names a folder of yours", name)


if __name__ == "__main__":
    raise SystemExit(main())
