# Config, catalogue and names: everything that the rules share.
#
# Needs: config.yaml with its overlays, the catalogues, notebooks/figures.yaml, schemas/.
# Makes: RUN, CATALOGUE, FIGURES, the grids, and the functions that several rules share; those of one
#        subject are in samples.smk, experiments.smk and products.smk.

import functools
import itertools
import json
import sys
from pathlib import Path

sys.path.insert(0, f"{workflow.basedir}/src")

from ntk_conditioning.data import datasets
from ntk_conditioning.networks import activations, architectures
from ntk_conditioning.training import learning_rates
from ntk_workflow import config as configuration
from ntk_workflow import resources
from ntk_workflow.figures import parameters as figures
from ntk_workflow.plan import batches, cells, sizes
from ntk_workflow.provenance import digests as provenance
from ntk_workflow.provenance import versions
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config

# First of all: Snakemake leaves the lists of --config as texts.
update_config(config, configuration.typed(workflow.config_settings.config))

# Jobs import the package from the checkout, so that a cluster node needs no install step.
shell.prefix(
    f"set -euo pipefail; export PYTHONPATH='{workflow.basedir}/src' PYTHONHASHSEED=0 NTK_JOB=1"
    f" NTK_MIRROR='{config['mirror'] or ''}'; "
)

FIGURES = configuration.read_yaml(f"{workflow.basedir}/notebooks/figures.yaml")
SCHEMA = configuration.read_yaml(f"{workflow.basedir}/schemas/config.schema.yaml")
BUILTIN_ACTIVATIONS = frozenset(activations.names())


def config_layers():
    """Return the sources of the config, the strongest last, to name them in errors."""
    files = ["config.yaml", *map(str, workflow.overwrite_configfiles)]
    layers = [
        configuration.Layer(name, configuration.read_yaml(name) or {}) for name in files
    ]
    return [
        *layers,
        configuration.Layer(
            "--config", configuration.typed(workflow.config_settings.config)
        ),
    ]


def checked_catalogue():
    """Return the datasets' catalogue of a config that can be run, or stop with every mistake."""
    schema = f"{workflow.basedir}/schemas/{{}}.schema.yaml"
    try:
        return configuration.check(
            config,
            layers=config_layers(),
            schema=SCHEMA,
            catalogue_schema=configuration.read_yaml(
                f"{workflow.basedir}/schemas/datasets.schema.yaml"
            ),
            figures=FIGURES,
            activations=activations,
            known_shape=datasets.known_shape,
            known_image=datasets.known_image,
            architectures=architectures,
        )
    except ValueError as error:
        raise WorkflowError(f"The configuration has mistakes:\n{error}") from None


CATALOGUE = checked_catalogue()
RUN = config["run"]
STUDY = config["activation_study"]
FEATURE_SETTINGS = {
    key: value for key, value in config["speech"].items() if key != "frames"
}


def setting(key, dataset):
    """Return a config value as it holds for one dataset."""
    return config["overrides"].get(dataset, {}).get(key, config[key])


def is_drawn(dataset):
    """Return whether every seed draws its own samples of a dataset."""
    return setting("samples", dataset) != "all"


MAIN_GRID = cells.Grid(
    kernels=config["kernels"],
    activations=config["activations"],
    depths={dataset: setting("depths", dataset) for dataset in config["datasets"]},
    seeds=config["seeds"],
    drawn=[*filter(is_drawn, config["datasets"])],
)
# By name, so that the order in which a config lists them is no reason to run anything again.
EXPERIMENTS = {
    name: configuration.training_defaults(SCHEMA) | config["training"][name]
    for name in sorted(config["training"])
}


def experiment_setting(key, experiment, dataset, model):
    """Return a value of an experiment as it holds for one model on one dataset."""
    values = EXPERIMENTS[experiment]
    exceptions = [values["overrides"].get(name, {}) for name in (model, dataset)]
    return next((own[key] for own in exceptions if key in own), values[key])


TRAINING_GRIDS = [
    cells.TrainingGrid(
        experiment=name,
        depths={
            dataset: values["overrides"]
            .get(dataset, {})
            .get("depths", values["depths"])
            for dataset in values["datasets"]
        },
        models=values["models"],
        activations=values["activations"],
    )
    for name, values in EXPERIMENTS.items()
]
STUDY_GRID = cells.Grid(
    kernels=["infinite_ntk"],
    activations=STUDY["activations"],
    depths={dataset: STUDY["depths"] for dataset in STUDY["datasets"]},
    seeds=config["seeds"],
    drawn=[*filter(is_drawn, STUDY["datasets"])],
)


wildcard_constraints:
    run="[a-z0-9_-]+",
    dataset="[a-z0-9_]+",
    draw=r"all|test|seed-\d+",
    activation="[a-z0-9_.-]+",
    architecture="[a-z0-9_]+",
    depth=r"\d+",
    seed=r"\d+",
    experiment="[a-z0-9_]+",
    model="[a-z0-9_]+",
    table="[a-z_]+",
    figure="[a-z0-9_]+/[a-z0-9_]+",


def plugins(*names):
    """Return the files that register activations; none if all are the package's own."""
    own = {activations.base_name(name) for name in names} <= BUILTIN_ACTIVATIONS
    return [] if own else config["activation_files"]


def plugin_options(*names):
    """Return the files that register activations as options."""
    return [f"--activation-file={file}" for file in plugins(*names)]


@functools.cache
def code(*programs, activation=None):
    """Return the digest of programs, the package modules they import, and activation plugins."""
    extra = plugins(activation) if activation else []
    return provenance.source_digest(*programs, *extra, source=f"{workflow.basedir}/src")


def shape(dataset):
    """Return samples and features of a dataset's cells; None for what only its files tell."""
    n, d = configuration.shape_of(
        dataset, CATALOGUE[dataset], config, datasets.known_shape
    )
    drawn = setting("samples", dataset)
    return n if drawn == "all" else drawn, d


def all_seeds(dataset):
    """Return the seeds of a dataset's cells."""
    return config["seeds"]


def drawing_seeds(dataset):
    """Return the seeds of a dataset's cells where they only draw the samples."""
    return config["seeds"] if is_drawn(dataset) else ["none"]


# Snakemake does not compare parameters that are derived from outputs, as these two are: one depth
# less, or one seed, is no reason to run a job again.
def job_depths(wildcards, output):
    """Return the depths of a job's cells."""
    return cells.depths_in(output)


def job_seeds(wildcards, output):
    """Return the seeds of a job's cells."""
    return cells.seeds_in(output)


def activation_options(wildcards):
    """Return the files of an activation of the user's own as options."""
    return plugin_options(wildcards.activation)
