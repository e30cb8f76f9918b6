"""Published statements as comparisons of a run's tables, and their verdicts.

A paper's claims are data (papers/{paper}.yaml); nothing here knows a paper. `read_paper` reads
them, `check` compares one with the tables, `pages` writes what was found.
"""

from __future__ import annotations

from ntk_workflow.claims.checking import (
    FAILS,
    HOLDS,
    NOT_TESTED,
    UNDER_A_CONDITION,
    VERDICTS,
    Finding,
    check,
)
from ntk_workflow.claims.papers import Claim, ClaimError, Condition, Join, Paper, read_paper

__all__ = [
    "FAILS",
    "HOLDS",
    "NOT_TESTED",
    "UNDER_A_CONDITION",
    "VERDICTS",
    "Claim",
    "ClaimError",
    "Condition",
    "Finding",
    "Join",
    "Paper",
    "check",
    "read_paper",
]
