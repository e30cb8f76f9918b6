# Products: the files that a run consists of, and how they are told of.
#
# Needs: common.smk. Makes: input and parameter functions, CATEGORIES and PAGES; no rules.


def bounds_cells():
    """Return the comparisons with bounds of every dataset and activation of their study."""
    study = config["bounds_study"]
    return expand(
        "results/{run}/bounds/{dataset}/{activation}.parquet",
        run=RUN,
        dataset=study["datasets"],
        activation=study["activations"],
    )


def assembly_cells(study):
    """Return the cells of a study of assemblies of neurons, orthogonality or linearity."""
    values = config[f"{study}_study"]
    return expand(
        "results/{run}/{study}/{dataset}/{architecture}/{activation}/width-{width}.parquet",
        run=RUN,
        study=study,
        dataset=values["datasets"],
        architecture=values["architectures"],
        activation=values["activations"],
        width=values["widths"],
    )


def assembly_options(study):
    """Return a function that gives a network's architecture and plugins as options."""

    def options(wildcards):
        architecture = config["architectures"][wildcards.architecture]
        classes = config[f"{study}_study"]["classes"]
        return [
            *["--hidden", *map(str, architecture["hidden"])],
            *(["--dense"] if architecture.get("dense") else []),
            *(["--classes", *map(str, classes)] if classes else []),
            *plugin_options(wildcards.activation),
        ]

    return options


def study_cells():
    """Return the cells that belong to no grid."""
    studies = ("orthogonality", "linearity")
    return [
        *bounds_cells(),
        *(cell for study in studies for cell in assembly_cells(study)),
    ]


def cell_files():
    """Return every cell of the run."""
    spectra = cells.spectrum_cells([MAIN_GRID, STUDY_GRID])
    return [
        *study_cells(),
        *expand("results/{run}/spectra/{cell}", run=RUN, cell=spectra),
        *expand(
            "results/{run}/angles/{cell}", run=RUN, cell=cells.angle_cells([MAIN_GRID])
        ),
        *expand(
            "results/{run}/training/{cell}",
            run=RUN,
            cell=cells.training_cells(TRAINING_GRIDS),
        ),
        *expand(
            "results/{run}/training_kernels/{cell}",
            run=RUN,
            cell=cells.training_kernel_cells(TRAINING_GRIDS),
        ),
    ]


def lost_cells():
    """Return the cells that are missing from a run that has tables.

    Snakemake does not miss what only its users need. As long as there is no table, tables ask for
    all cells, and to ask twice takes a third of the time of planning a large run.
    """
    tables = Path(f"results/{RUN}/tables")
    if not any(tables.glob("*.parquet")):
        return []
    return [cell for cell in cell_files() if not Path(cell).exists()]


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
    tables = dict(zip(spec["tables"], input))
    return json.dumps(
        figures.parameters(spec, config, tables=tables, pdf=output.pdf, png=output.png),
        sort_keys=True,
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
    "agarwal2021deep": "3 Agarwal, Awasthi and Kale (2021)",
    "liu2022transition": "4 Liu, Zhu and Belkin (2022)",
    "beyond": "5 Beyond the papers",
    "tables": "6 Data and tables",
    "run": "7 The run",
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
