"""What the numerical experiments on a paper measure, and its claims on that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from ntk_conditioning.claim_experiments import Setting
from ntk_conditioning.claim_experiments.papers import measure
from ntk_workflow.claims import Finding, check, read_paper

#: What tells measurements of a paper apart.
KEYS = ["statement", "activation", "depth", "width", "n", "d", "seed", "at"]
PAPERS = Path(__file__).parents[3] / "papers"


def content_of(paper: str) -> dict[str, Any]:
    """Return what a paper's file says."""
    content: dict[str, Any] = yaml.safe_load((PAPERS / f"{paper}.yaml").read_text(encoding="utf-8"))
    return content


def measured(paper: str, setting: Setting) -> pd.DataFrame:
    """Return the table of a paper's experiments."""
    return pd.DataFrame(asdict(each) for each in measure(paper, setting))


def findings_on(paper: str, table: pd.DataFrame) -> Mapping[str, Finding]:
    """Return the verdicts on a paper's claims that its experiments decide."""
    return {
        claim.name: check(claim, {"claim_experiments": table})
        for claim in read_paper(paper, content_of(paper)).claims
        if claim.table == "claim_experiments"
    }
