"""The figures of a run, its claims and its pages."""

import fnmatch
from itertools import chain
from pathlib import Path
from typing import Any

from ntk_workflow import listing
from ntk_workflow.checks import require
from ntk_workflow.config import did_you_mean
from ntk_workflow.plan.trainings import ASKED_FOR, TRAINING_TABLES, has_table
from ntk_workflow.run import STUDY_OF, Run, refuse
from ntk_workflow.yaml_files import to_words


def drawn(run: Run) -> list[str]:
    """Return the figures of `all`: those of the config whose studies are not switched off."""
    return [name for name in run.config["figures"] if not switched_off(run, name)]


def switched_off(run: Run, figure: str) -> list[str]:
    """Return the studies that a figure needs and that are switched off."""
    spec = run.figures[figure]
    needed = [STUDY_OF[table] for table in spec["tables"] if table in STUDY_OF]
    off = [study for study in needed if not run.section(study)]
    patterns = spec.get("experiments")
    shown = list(chain(*(fnmatch.filter(run.experiments, p) for p in patterns or ())))
    if patterns and not fnmatch.filter(shown, patterns[0]):
        off.append(f"training.{patterns[0].removesuffix('*')}")
    for table, key in ASKED_FOR.items():
        if table in spec["tables"] and not any(run.experiments[name][key] for name in shown):
            off.append(f"training with {key}")
    return list(dict.fromkeys(off))


def files(run: Run, figure: str) -> list[str]:
    """Return what a figure consists of."""
    return [run.path("figures", f"{figure}.{kind}") for kind in ("pdf", "png")]


def tables_of(run: Run, figure: str) -> dict[str, list[str]]:
    """Return the files of each table that a figure reads.

    Of trained networks there is one for each of the experiments that match the figure's patterns.
    """
    spec = run.figures[figure]
    matching = [fnmatch.filter(run.experiments, pattern) for pattern in spec.get("experiments", ())]
    shown = dict.fromkeys(chain(*matching))
    files = {table: [run.path("tables", f"{table}.parquet")] for table in spec["tables"]}
    for table in set(files) & set(TRAINING_TABLES):
        having = [name for name in shown if has_table(table, run.experiments[name])]
        files[table] = [run.path("tables", table, f"{name}.parquet") for name in having]
    return files


def inputs(run: Run, figure: str) -> list[str]:
    """Return the tables that a figure's notebook reads."""
    if figure not in run.figures:
        refuse(f"no figure {figure!r}; {did_you_mean(figure, run.figures)}")
    if off := switched_off(run, figure):
        refuse(f"{figure} needs {' and '.join(off)}, which the config lacks or switches off")
    for key, choices in run.figures[figure].get("needs", {}).items():
        have = run.config[key] if isinstance(run.config[key], list) else [run.config[key]]
        if not set(choices) & set(have):
            refuse(
                f"{figure} needs {' or '.join(choices)} in "
                f"{key!r}, which is {run.config[key]!r}; add it there or remove the figure"
            )
    return [path for paths in tables_of(run, figure).values() for path in paths]


def notebook_parameters(run: Run, figure: str) -> list[str]:
    """Return a notebook's parameters as NAME=VALUE: its tables, config values, files to write."""
    values: dict[str, Any] = {}
    for table, paths in tables_of(run, figure).items():
        shown = [*map(run.with_prefix, paths)]
        values[f"{table}_table"] = shown[0] if len(shown) == 1 else shown
    values |= {key: run.config[key] for key in run.figures[figure].get("parameters", [])}
    pdf, png = map(run.with_prefix, files(run, figure))
    return to_words(values | {"pdf": pdf, "png": png})


def paper_files(run: Run) -> list[str]:
    """Return the files of the papers' claims."""
    require(run, "papers")
    return [f"{run.home}papers/{name}.yaml" for name in run.papers]


def table_files(run: Run, names: Any) -> list[str]:
    """Return those of the tables that the run has: what is about others is not tested or shown."""
    return [run.path("tables", f"{name}.parquet") for name in names if name in run.tables]


def pages(run: Run) -> list[str]:
    """Return the pages of the run: explorer, claims, small tables, config and versions."""
    shown = [page for page in listing.PAGES if page == "run" or page in run.tables]
    claims = [run.path("claims.html")] if run.papers else []
    small = [run.path("pages", f"{page}.html") for page in shown]
    return [run.path("explorer.html"), *claims, *small]


def suggest(run: Run, target: str) -> None:
    """Refuse a target that does not exist, with those that are like it."""
    targets = ["advice", "all", "bundle", "claims", *map(listing.target, run.figures)]
    similar = " or ".join(name for name in targets if target in name)
    advice = f"did you mean {similar}?" if similar else did_you_mean(target, targets)
    message = f"no target {target!r}; {advice}"
    if Path(target).exists():  # an input of another rule
        raise ValueError(message)
    refuse(message)
