"""What is recorded and bundled of a run: its config, its results, and the workflow's source."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from ntk_workflow.config import user_programs
from ntk_workflow.plan import figures
from ntk_workflow.plan.rows import code
from ntk_workflow.plan.trainings import TRAINING_TABLES, has_table
from ntk_workflow.provenance import digests
from ntk_workflow.run import Run
from ntk_workflow.yaml_files import to_words

#: Keys that only say where files are: not recorded, and no result depends on them.
PLACES = ("data_dir", "mirror")

#: The workflow's source, as it is bundled. Links stay outside: a bag has none.
SOURCE = (
    *("CITATION.cff", "LICENSE", "Makefile", "README.md", "Snakefile", "config", "config.yaml"),
    *("datasets.yaml", "envs", "notebooks", "papers", "profiles", "pyproject.toml", "resources"),
    *("rules", "schemas", "scripts", "src"),
)


def given_config(run: Run) -> list[str]:
    """Return the config without what only says where files are, as KEY=VALUE."""
    return to_words({key: run.given[key] for key in sorted(set(run.given) - set(PLACES))})


def all_code(run: Run) -> str:
    """Return the digest of all that computes: programs, notebooks, the user's files."""
    programs = sorted(f"scripts/{path.name}" for path in run.source.glob("scripts/*.py"))
    notebooks = [f"notebooks/{figure}.ipynb" for figure in run.figures]
    return code(run, programs + notebooks, user_programs(run.config))


def results(run: Run) -> list[str]:
    """Return the results that are bundled; figures come with the notebooks that drew them."""
    files = [f"tables/{table}.parquet" for table in run.tables]
    for table, (name, experiment) in product(TRAINING_TABLES, run.experiments.items()):
        files += [f"tables/{table}/{name}.parquet"] if has_table(table, experiment) else []
    files += ["claims.md", "claims.html"] if run.papers else []
    files += ["explorer.html", "record/config.yaml", "record/versions.json"]
    paths = [run.path(file) for file in files]
    for figure in figures.drawn(run):
        paths += [run.path(f"notebooks/{figure}.ipynb"), *figures.files(run, figure)]
    return paths


def outside(run: Run, files: Sequence[str]) -> list[str]:
    """Return those of the user's files that are not part of the source."""
    source = {run.source / name for name in SOURCE}
    return [f for f in files if not {(path := Path(f).absolute()), *path.parents} & source]


def source_files(run: Run) -> list[str]:
    """Return the files and folders of the workflow's source, with the user's programs."""
    return [*(f"{run.home}{name}" for name in SOURCE), *outside(run, user_programs(run.config))]


def source_content(run: Run) -> str:
    """Return digests of the bundled source: to touch it does nothing, to change it counts."""
    paths = [*source_files(run), *outside(run, run.config["catalogues"])]
    return " ".join(digests.path_digest(path)[:16] for path in paths)
