"""Change what the papers' claims state, one at a time, and see that none stays confirmed.

    PYTHONPATH=src:scripts python -m tests.support.claim_mutants [FOLDER]

Tables are those of a finished run, by default the demo's. An inequality is turned round. The number
of an equation is moved to either side by 5 % and twice its tolerance. A misprint's printed and
corrected value change places, in a claim about one of them.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from ntk_conditioning import tables
from ntk_workflow.claims.checking import HOLDS, UNDER_A_CONDITION, check, rows_of
from ntk_workflow.claims.papers import Claim, columns, load

ROOT = Path(__file__).parents[2]
TURNED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
SWAPPED = {"printed": "corrected", "corrected": "printed"}


def mutants(claim: Claim, rows: pd.DataFrame) -> Iterator[tuple[str, Claim]]:
    """Yield claims that contradict a claim in each of its cases, with what was changed."""
    if claim.comparison in TURNED:
        turned = TURNED[claim.comparison]
        yield f"turned to {turned}", replace(claim, comparison=turned, tolerance=-claim.tolerance)
        return
    for sign in "+-":
        target = f"({claim.target}) {sign} 0.05 * abs({claim.target}) {sign} {2 * claim.tolerance}"
        if claim.target == "0":
            target = f"{sign}{2 * claim.tolerance or 1e-9}"
        yield f"{claim.target} moved to {target}", replace(claim, target=target)
    named = {*SWAPPED} & (columns(claim.quantity) | columns(claim.target))
    differ = abs(rows.get("printed", 0) - rows.get("corrected", 0)) > 0
    if len(named) == 1 and np.all(differ):  # a claim about one of them
        (name,) = named
        texts = {key: getattr(claim, key) for key in ("quantity", "target")}
        changed = {k: re.sub(rf"\b{name}\b", SWAPPED[name], t) for k, t in texts.items()}
        yield "printed and corrected swapped", replace(claim, **changed)


def confirmed(claim: Claim, tables: Mapping[str, pd.DataFrame]) -> str | None:
    """Return the words of a verdict that confirms a claim, None for other verdicts."""
    finding = check(claim, tables)
    known = finding.verdict in (HOLDS, UNDER_A_CONDITION)
    return f"{finding.verdict} {finding.condition or ''}" if known else None


def survivors(folder: Path) -> tuple[list[str], int]:
    """Return the changes after which a claim that a folder of tables confirms stays confirmed.

    Also how many were tried.
    """
    paths = folder.glob("*.parquet")
    read = {path.stem: tables.read(path, path.stem).to_pandas() for path in paths}
    found, tried = [], 0
    for claim in chain(*(load(path).claims for path in sorted(ROOT.glob("papers/*.yaml")))):
        if before := confirmed(claim, read):
            for words, mutant in mutants(claim, rows_of(claim, read)):
                tried += 1
                if confirmed(mutant, read) == before:
                    found.append(f"{claim.paper} {claim.name}: {words}")
    return found, tried


if __name__ == "__main__":
    folder = Path(*sys.argv[1:2]) if sys.argv[1:] else ROOT / "results/demo/tables"
    found, tried = survivors(folder)
    print("\n".join([*found, f"{tried} changes, {len(found)} of them unnoticed"]))
    sys.exit(bool(found))
