# The plan of the run, which all rules share.
#
# Needs: config.yaml with its overlays, the catalogues, notebooks/figures.yaml, papers/, schemas/.
# Makes: `plan`, whose methods say what each job needs: src/ntk_workflow/plan.

import shlex
import sys
from pathlib import Path

sys.path.insert(0, f"{workflow.basedir}/src")

from ntk_workflow import snakemake_internals
from ntk_workflow.figures import listing
from ntk_workflow.job_sizes import JobSizes
from ntk_workflow.plan import ConfigError, Plan
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config

try:
    layers = snakemake_internals.config_layers(workflow)
    update_config(config, layers[-1].values)  # whose lists Snakemake leaves as texts
    plan = Plan.from_config(
        config,
        layers=layers,
        source=workflow.basedir,
        tried=snakemake_internals.runs_one_job(workflow),
    )
except (ConfigError, ValueError) as error:
    raise WorkflowError(f"The configuration has mistakes:\n{error}") from None

snakemake_internals.wake_once()
sizes = JobSizes(
    plan, gives_gpu=lambda rule: snakemake_internals.gives_gpu(workflow, rule)
)

# Jobs import the packages from the checkout, so that a cluster's node needs no install step. Snakemake
# formats the prefix, hence the doubled braces.
environment = {
    "PYTHONPATH": f"{workflow.basedir}/src",
    "PYTHONHASHSEED": "0",
    "NTK_JOB": "1",
    "NTK_MIRROR": plan.config["mirror"] or "",
}
exports = " ".join(f"{name}={shlex.quote(text)}" for name, text in environment.items())
shell.prefix(
    f"set -euo pipefail; export {exports}; ".replace("{", "{{").replace("}", "}}")
)


wildcard_constraints:
    run=plan.config["run"],
    dataset="[a-z0-9_]+",
    draw=r"all|test|seed-\d+",
    activation="[a-z0-9_.-]+",
    architecture="[a-z0-9_]+",
    depth=r"\d+",
    experiment="[a-z0-9_]+",
    model="[a-z0-9_]+",
    table="[a-z_]+",
    figure="[a-z0-9_]+/[a-z0-9_]+",
