"""Bundle a run: what it found, what it was asked for, and the workflow that did it, in one zip."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from ntk_conditioning.errors import UserError
from ntk_conditioning.files import atomic, scratch_folder, sha256, write_text
from ntk_workflow.bundle import archive, crate
from ntk_workflow.cli import Argv, Parser, log, program
from ntk_workflow.config import read_yaml, redact_paths
from ntk_workflow.pages.rendering import render
from ntk_workflow.provenance import jobs
from ntk_workflow.provenance.digests import LEFT_OUT
from ntk_workflow.provenance.versions import PROJECT
from ntk_workflow.snakemake_internals import records


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder without what Python leaves in it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_OUT))
    else:
        shutil.copyfile(source, target)


@program
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("--run", required=True, help="name of the run")
    add("--files", nargs="+", required=True, help="tables, figures, ...")
    add("--rows", nargs="+", required=True, help="rows and datasheets behind them")
    help = "record to write of every job: code, inputs, outputs, device and times (.json)"
    add("--jobs", type=Path, required=True, help=help)
    add("--root", default="", help="what names of files begin with, left out")
    add("--source", type=Path, default=Path(), help="folder of the workflow")
    add("--workflow", type=Path, nargs="+", required=True, help="files and folders of its source")
    add("--catalogues", type=Path, nargs="+", required=True, help="catalogues of the data")
    add("--datasets", nargs="+", required=True, help="datasets of the run")
    add("--own-catalogues", type=Path, nargs="*", default=[], help="those that are no source")
    add("--include-rows", action="store_true", help="put the rows in too")
    add("--output", type=Path, required=True, help="bundle to write (.zip)")
    args = parser.parse_args(argv)

    known = jobs.provenance([*args.files, *args.rows], records(Path.cwd()), root=args.root)
    write_text(args.jobs, json.dumps(known, indent=1, sort_keys=True) + "\n")
    entries: dict[str, Any] = {}
    for path in args.catalogues:
        entries |= read_yaml(path)
    results = f"results/{args.run}/"
    files = {name.removeprefix(args.root): Path(name) for name in [*args.files, str(args.jobs)]}
    made = [name for name in files if not name.startswith(f"{results}record/")]
    if args.include_rows:
        rows = [n for n in known["files"] if n.startswith(results) and n.endswith(".parquet")]
        files |= {name: Path(args.root + name) for name in rows}
    times = sorted(job[key] for job in known["jobs"] for key in ("start", "end") if key in job)
    if not times:  # no job states one: the run is as old as its newest file
        newest = int(max(path.stat().st_mtime for path in files.values()))
        times = [datetime.fromtimestamp(newest, UTC).isoformat()]
    with scratch_folder() as scratch:
        folder = scratch / args.run
        for name, path in files.items():
            copy(path, folder / name)
        for path in [*args.workflow, *args.own_catalogues]:
            inside = path.relative_to(args.source) if args.source in path.parents else path
            inside = Path(redact_paths(str(inside), Path.cwd()))  # as the record names it
            if {"…", ".."} & {*inside.parts}:
                inside = Path("elsewhere", path.name)
            target = folder / "workflow" / inside
            if target.exists():
                raise UserError(f"two files would be {inside} in the bundle; rename one")
            copy(path, target)
            if path in args.own_catalogues:  # without absolute paths
                content = redact_paths(read_yaml(path), Path.cwd())
                write_text(target, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        copy(args.source / "CITATION.cff", folder / "CITATION.cff")
        citation = read_yaml(folder / "CITATION.cff")
        readme = render("bundle.md.j2", title=citation["title"], run=args.run)
        write_text(folder / "README.md", readme)
        data = {name: entries[name] for name in args.datasets}
        crate.write(folder, args.run, citation=citation, times=times, results=made, data=data)
        info = {"Bagging-Date": times[-1][:10], "External-Identifier": args.run}
        archive.make_bag(folder, info | {"Bag-Software-Agent": f"ntk-conditioning {PROJECT}"})
        with atomic(args.output) as temporary:
            archive.pack(folder, temporary)
    size = args.output.stat().st_size / 1e6
    log.info("%d jobs, %.1f MB, sha256 %s", len(known["jobs"]), size, sha256(args.output))
