"""The papers that have numerical experiments.

Modules are imported here by name, so that a digest of what a program imports covers them.
"""

import inspect
from collections.abc import Iterator
from itertools import chain
from types import ModuleType
from typing import Any

from ntk_conditioning.claim_experiments import Setting, followups
from ntk_conditioning.claim_experiments.agarwal2021deep import (
    activations,
    correlations,
    finite_width,
    norms,
)
from ntk_conditioning.claim_experiments.liu2022transition import hessians, normals
from ntk_conditioning.claim_experiments.liu2023relu import kernels, limits
from ntk_conditioning.errors import UserError

PAPERS: dict[str, tuple[ModuleType, ...]] = {
    "liu2023relu": (kernels, limits),
    "agarwal2021deep": (activations, correlations, norms, finite_width),
    "liu2022transition": (normals, hessians),
    "followups": (followups,),
}


def measure(paper: str, setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield what the experiments of a paper measure: its modules' functions of a setting alone."""
    if paper not in PAPERS:
        raise UserError(f"no experiments for the paper {paper!r}, only for {', '.join(PAPERS)}")
    for module in PAPERS[paper]:
        public = [value for name, value in vars(module).items() if not name.startswith("_")]
        for function in filter(inspect.isfunction, public):
            if list(inspect.signature(function).parameters) == ["setting"]:
                procedure = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
                for row in chain.from_iterable(function(setting)):
                    yield row | {"procedure": procedure}
