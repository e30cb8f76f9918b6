# Config, catalogue and names: everything that the rules share.
#
# Needs: config.yaml with its overlays, the catalogues, notebooks/figures.yaml, schemas/.
# Makes: RUN, CATALOGUE, FIGURES, the grids, and the functions that say which files a run has.

import json
import sys

sys.path[:0] = [f"{workflow.basedir}/src", f"{workflow.basedir}/rules"]

import configuration
from ntk_conditioning import activations, cells, datasets, provenance
from snakemake.exceptions import WorkflowError

# Jobs import the package from the checkout, so that a cluster node needs no install step.
shell.prefix(
    f"set -euo pipefail; export PYTHONPATH='{workflow.basedir}/src' PYTHONHASHSEED=0; "
)

FIGURES = configuration.read_yaml(f"{workflow.basedir}/notebooks/figures.yaml")
BUILTIN_ACTIVATIONS = frozenset(activations.names())


def config_layers():
    """Return the sources of the config, the strongest last, to name them in errors."""
    files = ["config.yaml", *map(str, workflow.overwrite_configfiles)]
    layers = [configuration.Layer(name, configuration.read_yaml(name) or {}) for name in files]
    return [*layers, configuration.Layer("--config", workflow.config_settings.config)]


def checked_catalogue():
    """Return the datasets' catalogue of a config that can be run, or stop with every mistake."""
    schema = f"{workflow.basedir}/schemas/{{}}.schema.yaml"
    try:
        return configuration.check(
            config,
            layers=config_layers(),
            schema=configuration.read_yaml(schema.format("config")),
            catalogue_schema=configuration.read_yaml(schema.format("datasets")),
            figures=FIGURES,
            activations=activations,
            count_samples=datasets.count_samples,
        )
    except ValueError as error:
        raise WorkflowError(f"The configuration has mistakes:\n{error}") from None


CATALOGUE = checked_catalogue()
RUN = config["run"]
STUDY = config["activation_study"]


def setting(key, dataset):
    """Return a config value as it holds for one dataset."""
    return config["overrides"].get(dataset, {}).get(key, config[key])


MAIN_GRID = cells.Grid(
    kernels=config["kernels"],
    activations=config["activations"],
    depths={dataset: setting("depths", dataset) for dataset in config["datasets"]},
    seeds=config["seeds"],
)
STUDY_GRID = cells.Grid(
    kernels=["infinite_ntk"],
    activations=STUDY["activations"],
    depths={dataset: STUDY["depths"] for dataset in STUDY["datasets"]},
    seeds=STUDY["seeds"],
)


wildcard_constraints:
    run="[a-z0-9_-]+",
    dataset="[a-z0-9_]+",
    activation="[a-z0-9_.-]+",
    depth=r"\d+",
    seed=r"\d+",
    table="[a-z_]+",
    figure="[a-z0-9_]+/[a-z0-9_]+",


def plugins(activation):
    """Return the files that register an activation; none for one of the package's own."""
    own = activations.base_name(activation) in BUILTIN_ACTIVATIONS
    return [] if own else config["activation_files"]


def code(*programs, activation=None):
    """Return the digest of programs, the package modules they import, and activation plugins."""
    extra = plugins(activation) if activation else []
    package = f"{workflow.basedir}/src/ntk_conditioning"
    return provenance.source_digest(*programs, *extra, package=package)
