"""The papers that have numerical experiments.

Modules are imported here by name, so that a digest of what a program imports covers them.
"""

import inspect
from types import ModuleType

from ntk_conditioning.claim_experiments import Measurements, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep import (
    activations,
    correlations,
    descent,
    interpolation,
    norms,
    random_layers,
)
from ntk_conditioning.claim_experiments.liu2022transition import assemblies, hessians, normals
from ntk_conditioning.claim_experiments.liu2023relu import (
    conditioning,
    limits,
    pairs,
    random_matrices,
    separation,
)
from ntk_conditioning.errors import UserError

PAPERS: dict[str, tuple[ModuleType, ...]] = {
    "liu2023relu": (conditioning, pairs, limits, random_matrices, separation),
    "agarwal2021deep": (activations, correlations, norms, descent, random_layers, interpolation),
    "liu2022transition": (assemblies, normals, hessians),
}


def measure(paper: str, setting: Setting) -> Measurements:
    """Yield what the experiments of a paper measure: its modules' functions of a setting alone."""
    if paper not in PAPERS:
        raise UserError(f"no experiments for the paper {paper!r}, only for {', '.join(PAPERS)}")
    for module in PAPERS[paper]:
        public = [each for name, each in vars(module).items() if not name.startswith("_")]
        for function in filter(inspect.isfunction, public):
            if list(inspect.signature(function).parameters) == ["setting"]:
                yield from function(setting)
