"""Bundle a run: what it found, what it was asked for, and the workflow that did it, in one zip."""

import json
import shutil
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
from ntk_workflow.provenance.versions import PROJECT

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("--run", required=True, help="name of the run")
    add("--files", type=Path, nargs="+", required=True, help="tables, figures, ...")
    add("--jobs", type=Path, required=True, help="record of the jobs (.json)")
    add("--root", default="", help="what names of files begin with, left out")
    add("--source", type=Path, default=Path(), help="folder of the workflow")
    add("--workflow", type=Path, nargs="+", required=True, help="files and folders of its source")
    add("--catalogues", type=Path, nargs="+", required=True, help="catalogues of the data")
    add("--datasets", nargs="+", required=True, help="datasets of the run")
    add("--own-catalogues", type=Path, nargs="*", default=[], help="those that are no source")
    add("--include-rows", action="store_true", help="put the rows in too")
    add("--output", type=Path, required=True, help="bundle to write (.zip)")
    args = parser.parse_args(argv)

    known = json.loads(args.jobs.read_text(encoding="utf-8"))
    entries: dict[str, Any] = {}
    for path in args.catalogues:
        entries |= yaml.safe_load(path.read_text(encoding="utf-8"))
    files, results = [*args.files, args.jobs], f"results/{args.run}/"
    if args.include_rows:
        rows = [name for name in known["files"] if name.endswith(".parquet")]
        rows = [name for name in rows if name.startswith(results)]
        files += [Path(args.root + name) for name in rows if f"{results}tables/" not in name]
    period = jobs.period(known["jobs"])
    # where no job states a time, the run is as old as its newest file
    newest = jobs.iso(max(path.stat().st_mtime for path in args.files))
    with scratch_folder() as scratch:
        folder = scratch / args.run
        for path in files:
            copy(path, folder / path.as_posix().removeprefix(args.root))
        for path in [*args.workflow, *args.own_catalogues]:
            ours = args.source in path.parents
            inside = path.relative_to(args.source) if ours else path
            if inside.is_absolute() or ".." in inside.parts:
                inside = Path("elsewhere", path.name)
            if (folder / "workflow" / inside).exists():
                message = f"two files would be {inside} in the bundle; give one another name"
                raise UserError(message)
            copy(path, folder / "workflow" / inside)
            if path in args.own_catalogues:  # without absolute paths
                content = published(yaml.safe_load(path.read_text(encoding="utf-8")), Path.cwd())
                text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
                write_text(folder / "workflow" / inside, text)
        copy(args.source / "CITATION.cff", folder / "CITATION.cff")
        citation = yaml.safe_load((folder / "CITATION.cff").read_text(encoding="utf-8"))
        readme = render("bundle.md.j2", title=citation["title"], run=args.run)
        write_text(folder / "README.md", readme)
        published_at = period[1] if period else newest
        names = [path.as_posix().removeprefix(args.root) for path in args.files]
        crate.write(
            folder,
            args.run,
            citation=citation,
            published=published_at,
            period=period,
            results=[name for name in names if not name.startswith(f"{results}record/")],
            data={name: entries[name] for name in args.datasets},
        )
        info = {"Bagging-Date": published_at[:10], "External-Identifier": args.run}
        archive.make_bag(folder, info | {"Bag-Software-Agent": f"ntk-conditioning {PROJECT}"})
        with atomic(args.output) as temporary:
            archive.pack(folder, temporary)
    size = args.output.stat().st_size / 1e6
    log.info("%d jobs, %.1f MB, sha256 %s", len(known["jobs"]), size, sha256(args.output))


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder without what Python leaves in it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_OUT))
    else:
        shutil.copyfile(source, target)


if __name__ == "__main__":
    raise SystemExit(main())
