# Bundle: a run as one file that anyone can verify: snakemake bundle, or make bundle.
#
# Needs: all that the run makes. Makes: results/{run}/record/jobs.json, who made what, and
#        results/{run}/bundle/{run}.zip, an RO-Crate in a BagIt bag. scripts/verify_bundle.py
#        checks it. Neither is part of `all`.


# Snakemake's notes are beside it, and making a bundle takes seconds.
localrules:
    record_jobs,
    bundle_run,
    bundle,


rule record_jobs:
    """Write down who made the run's files: code, inputs, outputs, device and times of every job."""
    input:
        files=bundled_files,
        cells=cell_files(),
        named=study_cells(),
    output:
        "results/{run}/record/jobs.json",
    log:
        "logs/{run}/record_jobs.log",
    conda:
        "../envs/environment.yaml"
    params:
        main=MAIN_GRID.to_json(),
        study=STUDY_GRID.to_json(),
        trainings=[grid.to_json() for grid in TRAINING_GRIDS],
        logs=lambda w: json.dumps(log_patterns(), sort_keys=True),
        code=code("scripts/record_jobs.py"),
    shell:
        "python scripts/record_jobs.py --results results/{wildcards.run} --files {input.files:q}"
        " {input.named:q} --main-grid {params.main:q} --study-grid {params.study:q}"
        " --training-grids {params.trainings:q} --logs {params.logs:q} --output {output:q} 2> {log:q}"


rule bundle_run:
    """Put the run into one file: results, config, provenance, and the workflow that made it."""
    input:
        files=bundled_files,
        jobs="results/{run}/record/jobs.json",
    output:
        "results/{run}/bundle/{run}.zip",
    log:
        "logs/{run}/bundle_run.log",
    conda:
        "../envs/environment.yaml"
    params:
        engine=versions.libraries()["snakemake"],
        workflow=[*SOURCE, *own_files("activation_files")],
        catalogues=own_files("catalogues"),
        # the source is not an input: to touch it must do nothing, to change it must count
        source=lambda w: source_digest(
            [*SOURCE, *own_files("activation_files"), *own_files("catalogues")]
        ),
        data=lambda w: json.dumps(catalogued_data(), sort_keys=True),
        cells="--include-cells" if config["bundle"]["include_cells"] else "",
        code=code("scripts/bundle_run.py"),
    shell:
        "python scripts/bundle_run.py --run {wildcards.run} --engine {params.engine}"
        " --files {input.files:q} --jobs {input.jobs:q} --workflow {params.workflow:q}"
        " --catalogues {params.catalogues:q}"
        " --data {params.data:q} {params.cells} --output {output:q} 2> {log:q}"


rule bundle:
    input:
        expand("results/{run}/bundle/{run}.zip", run=RUN),
