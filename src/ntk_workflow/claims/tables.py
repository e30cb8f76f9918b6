"""The papers whose claims a run checks: which of its tables they are about.

Pure functions but for reading the files; `claims.smk` gives them the config.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ntk_workflow.claims import ClaimError, read_paper
from ntk_workflow.config import read_yaml

#: The table of numerical experiments, the only one that is made for the claims' sake.
CLAIM_EXPERIMENTS = "claim_experiments"


def read(names: Sequence[str], *, folder: str, tables: Collection[str]) -> dict[str, Any]:
    """Return the content of the papers' files by name.

    Only what the workflow needs, and the expressions, are looked at; scripts/check_claims.py checks
    the rest.

    Raises:
        ValueError: naming every file that is missing or unreadable, the first claim of a file that
            has an expression that is not allowed, and every claim about a table that no run has.
    """
    found, problems = {}, []
    for name in names:
        path = Path(folder) / f"{name}.yaml"
        try:
            if not path.exists():
                known = ", ".join(sorted(each.stem for each in path.parent.glob("*.yaml")))
                raise ValueError(f"config key papers: there is no {path}; there are: {known}")
            found[name] = read_yaml(path)
            unknown = sorted(set(_tables(found[name])) - set(tables))
            problems += [f"{path}: no run has the table {table} of a claim" for table in unknown]
            read_paper(name, found[name])
        except ClaimError as error:
            problems.append(f"{path}: {error}")
        except (LookupError, TypeError) as error:
            problems.append(f"{path}: not a paper's claims: {error}")
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ValueError("\n".join(problems))
    return found


def tables(papers: Mapping[str, Any]) -> list[str]:
    """Return the tables that the claims are about, sorted."""
    return sorted({table for content in papers.values() for table in _tables(content)})


def with_experiments(papers: Mapping[str, Any]) -> list[str]:
    """Return the papers that have numerical experiments of their own."""
    return [name for name, content in papers.items() if CLAIM_EXPERIMENTS in _tables(content)]


def _tables(content: Mapping[str, Any]) -> list[str]:
    claims = content["claims"]
    joins = [join for claim in claims for join in claim.get("joins", ())]
    return [each["table"] for each in [*claims, *joins] if "table" in each]
