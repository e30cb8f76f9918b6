# Config, catalogue and names: everything that the rules share.
#
# Needs: config.yaml with its overlays, the catalogues, notebooks/figures.yaml, schemas/.
# Makes: RUN, CATALOGUE, FIGURES, the grids, and the functions that say which files a run has.

import functools
import json
import sys
from pathlib import Path

sys.path[:0] = [f"{workflow.basedir}/src", f"{workflow.basedir}/rules"]

import batches
import configuration
import planning
import work
from ntk_conditioning import (
    activations,
    cells,
    costs,
    datasets,
    learning_rates,
    provenance,
    versions,
)
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
            schema=configuration.read_yaml(schema.format("config")),
            catalogue_schema=configuration.read_yaml(schema.format("datasets")),
            figures=FIGURES,
            activations=activations,
            known_shape=datasets.known_shape,
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
EXPERIMENTS = config["training"]


def experiment_setting(key, experiment, dataset):
    """Return a value of an experiment as it holds for one dataset."""
    values = EXPERIMENTS[experiment]
    return values["overrides"].get(dataset, {}).get(key, values[key])


TRAINING_GRIDS = [
    cells.TrainingGrid(
        experiment=name,
        depths={
            dataset: experiment_setting("depths", name, dataset)
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
    depth=r"\d+",
    seed=r"\d+",
    experiment="[a-z0-9_]+",
    model="[a-z0-9_]+",
    table="[a-z_]+",
    figure="[a-z0-9_]+/[a-z0-9_]+",


def plugins(activation):
    """Return the files that register an activation; none for one of the package's own."""
    own = activations.base_name(activation) in BUILTIN_ACTIVATIONS
    return [] if own else config["activation_files"]


@functools.cache
def code(*programs, activation=None):
    """Return the digest of programs, the package modules they import, and activation plugins."""
    extra = plugins(activation) if activation else []
    package = f"{workflow.basedir}/src/ntk_conditioning"
    return provenance.source_digest(*programs, *extra, package=package)


def is_speech(dataset):
    """Return whether a dataset consists of frames that are drawn from a speech corpus."""
    return CATALOGUE[dataset]["reader"] == configuration.SPEECH


def catalogued_files(dataset, split):
    """Return the catalogued files of a dataset's training or test samples, by part."""
    files = CATALOGUE[dataset].get("files", {})
    return {part: file for part, file in files.items() if part.startswith(split)}


def has_test_set(dataset):
    """Return whether a dataset has test samples of its own."""
    return bool(catalogued_files(dataset, "test"))


def split_of(draw):
    """Return which part of a dataset a draw is taken from."""
    return "test" if draw == "test" else "train"


def local_files(dataset, split):
    """Return where a dataset's training or test samples are read from, by part."""
    if "path" in CATALOGUE[dataset]:
        return {"train_x": CATALOGUE[dataset]["path"]}
    return {
        part: f"{config['data_dir']}/{file['name']}"
        for part, file in catalogued_files(dataset, split).items()
    }


def original_files(wildcards, split="train"):
    """Return what must be there before a dataset's training or test samples are read.

    For a download that is the word that its file is in place, see `download_file`.
    """
    if "path" in CATALOGUE[wildcards.dataset]:
        return [ancient(CATALOGUE[wildcards.dataset]["path"])]
    return [
        f"results/{wildcards.run}/downloads/{file['name']}.json"
        for file in catalogued_files(wildcards.dataset, split).values()
    ]


def prepared_from(wildcards):
    """Return the inputs of a prepared dataset."""
    if is_speech(wildcards.dataset):
        return [f"results/{wildcards.run}/features/{wildcards.dataset}.npz"]
    return original_files(wildcards, split_of(wildcards.draw))


def parts(wildcards, input):
    """Return the files of a dataset as options for the program that reads them."""
    if is_speech(wildcards.dataset):
        return [f"features={input[0]}"]
    files = local_files(wildcards.dataset, split_of(wildcards.draw))
    return [f"{part}={path}" for part, path in files.items()]


def entry(wildcards):
    """Return what a catalogue entry says of a dataset's content, as JSON.

    Addresses, titles and citations are left out: a new mirror must not recompute a run.
    """
    known = CATALOGUE[wildcards.dataset]
    kept = {
        key: known[key]
        for key in ("reader", "options", "path", "shape", "scaling", "value_range")
        if key in known
    }
    if "files" in known:
        kept["files"] = {
            part: {"name": file["name"], "urls": [], "sha256": file["sha256"]}
            for part, file in known["files"].items()
        }
    return json.dumps({"title": wildcards.dataset, **kept}, sort_keys=True)


@functools.cache
def content(path):
    """Return a digest of a user's file or folder, taken once each time Snakemake starts."""
    return provenance.path_digest(path)


def own_content(wildcards):
    """Return a digest of a user's own file or folder; the catalogue has those of all others."""
    path = CATALOGUE[wildcards.dataset].get("path")
    return content(path) if path else ""


def speech_frames(wildcards):
    """Return how many frames are drawn from a speech corpus."""
    return configuration.speech_frames(wildcards.dataset, config)


def alignments(wildcards):
    """Return the folder of a speech corpus' alignments as an option."""
    folder = CATALOGUE[wildcards.dataset]["options"].get("alignments")
    return [f"--alignments={folder}"] if folder else []


def alignment_content(wildcards):
    """Return a digest of the folder of a speech corpus' alignments."""
    folder = CATALOGUE[wildcards.dataset]["options"].get("alignments")
    return content(folder) if folder else ""


def draw_options(wildcards):
    """Return the options that say which samples of a dataset make up a draw."""
    if wildcards.draw == "all":
        return []
    if wildcards.draw == "test":
        return ["--split test"]
    samples = ["--samples", str(setting("samples", wildcards.dataset))]
    balanced = ["--balanced"] if setting("balanced", wildcards.dataset) else []
    return [*samples, "--seed", wildcards.draw.removeprefix("seed-"), *balanced]


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
    return [f"--activation-file={file}" for file in plugins(wildcards.activation)]


def draws(wildcards):
    """Return what a job's seeds are computed from: a draw for each of them, or the whole dataset."""
    return cells.draws(config["seeds"], drawn=is_drawn(wildcards.dataset))


def prepared_data(wildcards):
    """Return the prepared samples of a job's seeds; the datasheets tell when they change."""
    folder = f"results/{wildcards.run}/datasets/{wildcards.dataset}"
    return [ancient(f"{folder}/{draw}.npz") for draw in draws(wildcards)]


def prepared_datasheets(wildcards):
    """Return the datasheets of `prepared_data`, with their checksums."""
    folder = f"results/{wildcards.run}/datasets/{wildcards.dataset}"
    return [f"{folder}/{draw}.json" for draw in draws(wildcards)]


def cell_files():
    """Return every cell of the run."""
    spectra = cells.spectrum_cells([MAIN_GRID, STUDY_GRID])
    return [
        *expand("results/{run}/spectra/{cell}", run=RUN, cell=spectra),
        *expand(
            "results/{run}/angles/{cell}", run=RUN, cell=cells.angle_cells([MAIN_GRID])
        ),
        *expand(
            "results/{run}/{folder}/{cell}",
            run=RUN,
            folder=["training", "training_kernels"],
            cell=cells.training_cells(TRAINING_GRIDS),
        ),
    ]


def experiment_value(key):
    """Return a function that gives a job a value of its experiment."""
    return lambda w: experiment_setting(key, w.experiment, w.dataset)


def trained_on(wildcards):
    """Return the inputs of a training: all samples, and the test samples if there are any."""
    folder = f"results/{wildcards.run}/datasets/{wildcards.dataset}"
    draws = ["all", "test"] if has_test_set(wildcards.dataset) else ["all"]
    return {
        "data": ancient(f"{folder}/all.npz"),
        "datasheets": [f"{folder}/{draw}.json" for draw in draws],
    } | ({"test": ancient(f"{folder}/test.npz")} if len(draws) == 2 else {})


def test_option(wildcards, input):
    """Return the file of a training's test samples as an option."""
    return [f"--test={input.test}"] if has_test_set(wildcards.dataset) else []


def relative_rates(wildcards):
    """Return an experiment's learning rates in units of the critical rate, if it gives them so."""
    rates = experiment_setting(
        "learning_rates", wildcards.experiment, wildcards.dataset
    )
    if rates == "auto":
        return learning_rates.AUTO[EXPERIMENTS[wildcards.experiment]["loss"]]
    return rates["critical"] if isinstance(rates, dict) else None


def training_kernel(wildcards):
    """Return the table of critical rates of a training that needs them."""
    if relative_rates(wildcards) is None:
        return []
    return "results/{run}/training_kernels/{experiment}/{dataset}/{model}/{activation}/depth-{depth}.parquet"


def rate_options(wildcards, input):
    """Return the learning rates of a training as options."""
    relative = relative_rates(wildcards)
    if relative is not None:
        return ["--relative-rates", *relative, f"--kernel={input.kernel}"]
    rates = experiment_setting(
        "learning_rates", wildcards.experiment, wildcards.dataset
    )
    return ["--learning-rates", *rates]


def figure_files(figure):
    """Return what a figure consists of."""
    return expand(
        "results/{run}/figures/{figure}.{format}",
        run=RUN,
        figure=figure,
        format=["pdf", "png"],
    )


def figure_tables(wildcards):
    """Return the tables that a figure's notebook reads."""
    return [
        f"results/{wildcards.run}/tables/{table}.parquet"
        for table in FIGURES[wildcards.figure]["tables"]
    ]


def figure_parameters(wildcards, input, output):
    """Return a notebook's parameters as JSON: its tables, its figure files and config values."""
    spec = FIGURES[wildcards.figure]
    tables = {f"{table}_table": path for table, path in zip(spec["tables"], input)}
    values = {key: config[key] for key in spec.get("parameters", [])}
    return json.dumps(
        {**tables, **values, "pdf": output.pdf, "png": output.png}, sort_keys=True
    )


def target_name(figure):
    """Return a figure's short target: liu2023relu_fig2 of liu2023relu/fig2_conditioning_vs_depth.

    A figure without a number has a long target: beyond_spectrum_decay.
    """
    paper, name = figure.split("/")
    short = name.split("_")[0]
    return f"{paper}_{short}" if re.fullmatch(r"fig\d+", short) else f"{paper}_{name}"


# What the report lists, in this order: it sorts by name. Papers are called as in notebooks/.
CATEGORIES = {
    "claims": "1 Claims",
    "liu2023relu": "2 Liu and Hui (2023)",
    "beyond": "3 Beyond the papers",
    "tables": "4 Data and tables",
    "run": "5 The run",
}
PAGES = ["datasets", "conditioning", "learning_rates", "run"]


def figure_title(wildcards):
    """Return the name of a figure in the report: what its caption begins with, in bold letters."""
    number = re.search(r"\bfig(\d+)_", wildcards.figure)
    path = Path(workflow.basedir, "notebooks", f"{wildcards.figure}.rst")
    caption = " ".join(path.read_text(encoding="utf-8").split())
    title = re.match(r"\*\*(.+?)\.?\*\*", caption)
    if not title:
        raise WorkflowError(
            f"notebooks/{wildcards.figure}.rst: begin with a title: **What against what.**"
        )
    return f"Figure {number[1]}: {title[1]}" if number else title[1]


def figure_category(wildcards):
    """Return the part of the report that a figure is in: its paper."""
    paper = Path(wildcards.figure).parent.name
    return CATEGORIES.get(paper, paper)


def figure_labels(wildcards):
    """Return how a figure is listed in the report."""
    return {"figure": Path(wildcards.figure).name.replace("_", " ")}


# Where files are found, which is nobody else's business and changes no result.
PLACES = ["data_dir", "mirror"]


def recorded_config():
    """Return the config without what only says where files are."""
    return {key: config[key] for key in sorted(config) if key not in PLACES}


def workflow_digest():
    """Return the digest of all that computes: programs, notebooks, the package, own activations."""
    programs = Path(workflow.basedir).glob("scripts/*.py")
    notebooks = (f"notebooks/{figure}.ipynb" for figure in FIGURES)
    return code(*programs, *notebooks, *config["activation_files"])


def record_files():
    """Return the record of the run."""
    return expand(
        "results/{run}/record/{file}", run=RUN, file=["config.yaml", "versions.json"]
    )
