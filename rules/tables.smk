# Tables: the cells of a run, put together.
#
# Needs: the cells. Makes: results/{run}/tables/{spectra,conditioning,angles}.parquet.
#
# A command line cannot hold the names of all cells of a large run, so the scripts are given the
# grids and the folder; Snakemake itself tracks every cell.

TABLES = ["spectra", "conditioning", "angles"]
GRIDS = [MAIN_GRID, STUDY_GRID]


rule aggregate_spectra:
    """Collect the spectra of all cells, one row per kernel block."""
    input:
        expand("results/{{run}}/spectra/{cell}", cell=cells.spectrum_cells(GRIDS)),
    output:
        "results/{run}/tables/spectra.parquet",
    log:
        "logs/{run}/aggregate_spectra.log",
    conda:
        "../envs/environment.yaml"
    params:
        grids=[grid.to_json() for grid in GRIDS],
        code=code("scripts/aggregate_spectra.py"),
    shell:
        "python scripts/aggregate_spectra.py --cells results/{wildcards.run}/spectra"
        " --grids {params.grids:q} --output {output:q} 2> {log:q}"


rule aggregate_conditioning:
    """Summarise kappa over blocks and seeds, one row per curve point."""
    input:
        "results/{run}/tables/spectra.parquet",
    output:
        "results/{run}/tables/conditioning.parquet",
    log:
        "logs/{run}/aggregate_conditioning.log",
    conda:
        "../envs/environment.yaml"
    params:
        code=code("scripts/aggregate_conditioning.py"),
    shell:
        "python scripts/aggregate_conditioning.py --spectra {input:q} --output {output:q} 2> {log:q}"


rule aggregate_angles:
    """Collect the smallest angles of all cells."""
    input:
        expand("results/{{run}}/angles/{cell}", cell=cells.angle_cells([MAIN_GRID])),
    output:
        "results/{run}/tables/angles.parquet",
    log:
        "logs/{run}/aggregate_angles.log",
    conda:
        "../envs/environment.yaml"
    params:
        grids=[MAIN_GRID.to_json()],
        code=code("scripts/aggregate_angles.py"),
    shell:
        "python scripts/aggregate_angles.py --cells results/{wildcards.run}/angles"
        " --grids {params.grids:q} --output {output:q} 2> {log:q}"
