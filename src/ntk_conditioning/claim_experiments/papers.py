"""The papers that have numerical experiments.

Modules are imported here by name, so that a digest of what a program imports covers them.
"""

import inspect
from collections.abc import Callable
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


def experiments(paper: str) -> list[Callable[[Setting], Measurements]]:
    """Return the experiments of a paper: its modules' functions of a setting alone."""
    if paper not in PAPERS:
        raise UserError(f"no experiments for the paper {paper!r}, only for {', '.join(PAPERS)}")
    named = [each for module in PAPERS[paper] for each in vars(module).items()]
    public = [function for name, function in named if not name.startswith("_")]
    functions = filter(inspect.isfunction, public)
    return [each for each in functions if list(inspect.signature(each).parameters) == ["setting"]]


def measure(paper: str, setting: Setting) -> Measurements:
    """Yield what the experiments of a paper measure."""
    for experiment in experiments(paper):
        yield from experiment(setting)
