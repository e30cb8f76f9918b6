"""Runs for tests: the demo's config with an overlay on top."""

import copy
from pathlib import Path

from snakemake.utils import update_config

from ntk_workflow.checks import mistakes
from ntk_workflow.config import read_yaml
from ntk_workflow.run import GRID, Run, load

ROOT = Path(__file__).parents[2]
#: The demo's with the claims of one paper alone, the shortest: to read them takes half a second.
BASE = read_yaml(ROOT / "config.yaml") | {"catalogues": [str(ROOT / "datasets.yaml")]}
BASE |= {"papers": ["phase_diagram"]}


def run_of(overlay: dict) -> Run:
    config = copy.deepcopy(BASE)
    update_config(config, overlay)
    return load(config, source=ROOT)


def mistakes_of(run: Run) -> dict[str, list[str]]:
    """Return the mistakes of each study that has some."""
    studies = [GRID, *(key for key in run.config if "study" in key or "constants" in key)]
    studies += [f"training.{name}" for name in run.config["training"] or {}]
    return {study: lines for study in studies if (lines := mistakes(study, run))}
