"""The papers of a run, read from their files, and the tables that their claims are about."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ntk_workflow.claims.papers import ClaimError, Paper, read_paper
from ntk_workflow.config import read_yaml

#: The table of numerical experiments, the only one that is made for the claims' sake.
CLAIM_EXPERIMENTS = "claim_experiments"


def read(names: Sequence[str], *, folder: str, tables: Collection[str]) -> dict[str, Paper]:
    """Return the papers by name; scripts/check_claims.py compares their files with the schema.

    Raises:
        ValueError: a line for every file that is missing, unreadable or has an expression that is
            not allowed, and for every claim about a table that no run has.
    """
    papers: dict[str, Paper] = {}
    problems = []
    for name in names:
        path = Path(folder) / f"{name}.yaml"
        try:
            if not path.exists():
                known = ", ".join(sorted(each.stem for each in path.parent.glob("*.yaml")))
                raise ValueError(f"config key papers: there is no {path}; there are: {known}")
            papers[name] = read_paper(name, read_yaml(path))
            unknown = [table for table in papers[name].tables if table not in tables]
            problems += [f"{path}: no run has the table {table} of a claim" for table in unknown]
        except ClaimError as error:
            problems.append(f"{path}: {error}")
        except (LookupError, TypeError) as error:
            problems.append(f"{path}: not a paper's claims: {error}")
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ValueError("\n".join(problems))
    return papers


def tables(papers: Mapping[str, Paper]) -> list[str]:
    """Return the tables that the claims are about, sorted."""
    return sorted({table for paper in papers.values() for table in paper.tables})


def with_experiments(papers: Mapping[str, Paper]) -> list[str]:
    """Return the papers that have numerical experiments of their own."""
    return [name for name, paper in papers.items() if CLAIM_EXPERIMENTS in paper.tables]
