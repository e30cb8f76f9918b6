"""Published statements (papers/{paper}.yaml) as comparisons of a run's tables, and verdicts."""

from ntk_workflow.claims.checking import FAILS, HOLDS, UNDER_A_CONDITION, Finding, check
from ntk_workflow.claims.papers import read_paper

__all__ = ["FAILS", "HOLDS", "UNDER_A_CONDITION", "Finding", "check", "read_paper"]
