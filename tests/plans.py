"""Plans of runs for tests: the demo's config with an overlay on top."""

import copy
from pathlib import Path
from types import SimpleNamespace

from snakemake.utils import update_config

from ntk_workflow.checks import GRID, mistakes
from ntk_workflow.config import read_yaml
from ntk_workflow.plan import Plan

ROOT = Path(__file__).parents[1]
BASE = read_yaml(ROOT / "config.yaml") | {"catalogues": [str(ROOT / "datasets.yaml")]}


def plan_of(overlay: dict) -> Plan:
    """Return the plan of a config with an overlay."""
    config = copy.deepcopy(BASE)
    update_config(config, overlay)
    return Plan.from_config(config, source=ROOT)


def mistakes_of(plan: Plan) -> dict[str, list[str]]:
    """Return the mistakes of each study that has some."""
    assert plan.known
    studies = [GRID, *(key for key in plan.config if "study" in key or "constants" in key)]
    studies += [f"training.{name}" for name in plan.config["training"] or {}]
    return {study: lines for study in studies if (lines := mistakes(study, plan.known))}


class Wildcards(SimpleNamespace):
    """A job's wildcards."""

    def get(self, name: str, default: str) -> str:
        return self.__dict__.get(name, default)

    def keys(self) -> list[str]:
        return list(self.__dict__)

    def __getitem__(self, name: str) -> str:
        return self.__dict__[name]
