# Tables: the cells of a run, put together.
#
# Needs: the cells and the datasheets.
# Makes: results/{run}/tables/{table}.parquet
#
# A command line cannot hold the names of all cells of a large run, so the scripts are given the
# grid and the folder; Snakemake itself tracks every cell.

TABLES = [
    "spectra",
    "conditioning",
    "angles",
    "activation_study",
    "datasets",
    "bounds",  # of rules/bounds.smk
    "orthogonality",  # of rules/assemblies.smk, as the next two
    "linearity",
    "width_slopes",
    "precision",  # of rules/precision.smk
    "activations",  # of rules/activations.smk
    "statements",  # of rules/claims.smk
    "claims",
    "training",
    "training_kernels",
    "learning_rates",
]


rule aggregate_spectra:
    """Collect the spectra of the main grid, one row per kernel block."""
    input:
        expand("results/{{run}}/spectra/{cell}", cell=cells.spectrum_cells([MAIN_GRID])),
    output:
        "results/{run}/tables/spectra.parquet",
    log:
        "logs/{run}/aggregate_spectra.log",
    conda:
        "../envs/environment.yaml"
    params:
        grid=MAIN_GRID.to_json(),
        code=code("scripts/aggregate_spectra.py"),
    shell:
        "python scripts/aggregate_spectra.py --cells results/{wildcards.run}/spectra"
        " --grids {params.grid:q} --output {output:q} 2> {log:q}"


rule aggregate_conditioning:
    """Summarise kappa of the main grid over blocks and seeds, one row per curve point."""
    input:
        expand("results/{{run}}/spectra/{cell}", cell=cells.spectrum_cells([MAIN_GRID])),
    output:
        "results/{run}/tables/conditioning.parquet",
    log:
        "logs/{run}/aggregate_conditioning.log",
    conda:
        "../envs/environment.yaml"
    params:
        grid=MAIN_GRID.to_json(),
        code=code("scripts/aggregate_conditioning.py"),
    shell:
        "python scripts/aggregate_conditioning.py --cells results/{wildcards.run}/spectra"
        " --grids {params.grid:q} --output {output:q} 2> {log:q}"


use rule aggregate_conditioning as aggregate_activation_study with:
    input:
        expand(
            "results/{{run}}/spectra/{cell}", cell=cells.spectrum_cells([STUDY_GRID])
        ),
    output:
        "results/{run}/tables/activation_study.parquet",
    log:
        "logs/{run}/aggregate_activation_study.log",
    params:
        grid=STUDY_GRID.to_json(),
        code=code("scripts/aggregate_conditioning.py"),


rule aggregate_angles:
    """Collect the smallest angles of the main grid."""
    input:
        expand("results/{{run}}/angles/{cell}", cell=cells.angle_cells([MAIN_GRID])),
    output:
        "results/{run}/tables/angles.parquet",
    log:
        "logs/{run}/aggregate_angles.log",
    conda:
        "../envs/environment.yaml"
    params:
        grid=MAIN_GRID.to_json(),
        code=code("scripts/aggregate_angles.py"),
    shell:
        "python scripts/aggregate_angles.py --cells results/{wildcards.run}/angles"
        " --grids {params.grid:q} --output {output:q} 2> {log:q}"


rule aggregate_datasets:
    """Collect the datasheets of all datasets and draws."""
    input:
        expand(
            "results/{{run}}/datasheets/{cell}",
            cell=cells.datasheet_cells([MAIN_GRID, STUDY_GRID]),
        ),
    output:
        "results/{run}/tables/datasets.parquet",
    log:
        "logs/{run}/aggregate_datasets.log",
    conda:
        "../envs/environment.yaml"
    params:
        grids=[MAIN_GRID.to_json(), STUDY_GRID.to_json()],
        code=code("scripts/aggregate_datasets.py"),
    shell:
        "python scripts/aggregate_datasets.py --cells results/{wildcards.run}/datasheets"
        " --grids {params.grids:q} --output {output:q} 2> {log:q}"


rule aggregate_training:
    """Collect the training curves of all experiments."""
    input:
        expand(
            "results/{{run}}/training/{cell}",
            cell=cells.training_cells(TRAINING_GRIDS),
        ),
    output:
        "results/{run}/tables/training.parquet",
    log:
        "logs/{run}/aggregate_training.log",
    conda:
        "../envs/environment.yaml"
    params:
        table="training",
        grids=[grid.to_json() for grid in TRAINING_GRIDS],
        code=code("scripts/aggregate_training.py"),
    shell:
        "python scripts/aggregate_training.py --table {params.table}"
        " --cells results/{wildcards.run}/{params.table} --grids {params.grids:q}"
        " --output {output:q} 2> {log:q}"


use rule aggregate_training as aggregate_training_kernels with:
    input:
        expand(
            "results/{{run}}/training_kernels/{cell}",
            cell=cells.training_kernel_cells(TRAINING_GRIDS),
        ),
    output:
        "results/{run}/tables/training_kernels.parquet",
    log:
        "logs/{run}/aggregate_training_kernels.log",
    params:
        table="training_kernels",
        grids=[grid.to_json() for grid in TRAINING_GRIDS],
        code=code("scripts/aggregate_training.py"),


rule select_learning_rates:
    """Find the best learning rate of every network, and whether its grid reached far enough."""
    input:
        training="results/{run}/tables/training.parquet",
        kernels="results/{run}/tables/training_kernels.parquet",
    output:
        "results/{run}/tables/learning_rates.parquet",
    log:
        "logs/{run}/select_learning_rates.log",
    conda:
        "../envs/environment.yaml"
    params:
        criteria=json.dumps(
            {
                name: {key: values[key] for key in ("criterion", "loss_level")}
                for name, values in EXPERIMENTS.items()
            }
        ),
        code=code("scripts/select_learning_rates.py"),
    shell:
        "python scripts/select_learning_rates.py --training {input.training:q}"
        " --kernels {input.kernels:q} --criteria {params.criteria:q}"
        " --output {output:q} 2> {log:q}"
