# Tables: the cells of a run, put together.
#
# Needs: the cells and the datasheets.
# Makes: results/{run}/tables/{spectra,conditioning,angles,activation_study,datasets}.parquet
#
# A command line cannot hold the names of all cells of a large run, so the scripts are given the
# grid and the folder; Snakemake itself tracks every cell.

TABLES = [
    "spectra",
    "conditioning",
    "angles",
    "activation_study",
    "datasets",
    "precision",  # of rules/precision.smk
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
