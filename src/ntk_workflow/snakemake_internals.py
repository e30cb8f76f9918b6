"""What the workflow needs of Snakemake and its documentation does not promise.

Everything undocumented stands here, and tests/ntk_workflow/test_snakemake_internals.py touches each
attribute, so that a new version of Snakemake fails there and not at a user's.
"""

from __future__ import annotations

from typing import Any

from ntk_workflow.config import Layer, read_yaml, typed


def config_layers(workflow: Any) -> list[Layer]:
    """Return the sources of a config, the strongest last: files, then --config.

    Snakemake merges them into one mapping and does not tell which of them a value came from, and
    leaves the items of lists given to --config as texts.
    """
    files = ["config.yaml", *map(str, workflow.overwrite_configfiles)]
    given = typed(workflow.config_settings.config)
    return [*(Layer(name, read_yaml(name) or {}) for name in files), Layer("--config", given)]


def gives_gpu(workflow: Any, rule: str) -> bool:
    """Return whether the profile, or --set-resources, gives GPUs to the jobs of a rule."""
    given = workflow.resource_settings.overwrite_resources.get(rule, {})
    return "gpu" in given and str(given["gpu"].raw) != "0"
