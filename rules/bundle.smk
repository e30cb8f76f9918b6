# Bundle: a run as one file that anyone can verify: snakemake bundle, or make bundle.
#
# Needs: all that the run makes. Makes: results/{run}/record/jobs.json, who made what, and
#        results/{run}/bundle/{run}.zip, an RO-Crate in a BagIt bag. scripts/verify_bundle.py
#        checks it. Neither is part of `all`.

from ntk_workflow.checks import used_datasets


rule record_jobs:
    """Write down who made the run's files: code, inputs, outputs, device and times of every job."""
    input:
        files=record.results(run),
        rows=lambda w: rows.all_rows(run),
        datasheets=lambda w: datasets.datasheets(run),
    output:
        "results/{run}/record/jobs.json",
    log:
        "logs/{run}/record_jobs.log",
    localrule: True  # Snakemake's notes are beside it
    conda:
        "../envs/environment.yaml"
    params:
        root=f"--root={placed('')}",
        code=code("scripts/record_jobs.py"),
    shell:
        f"{python} {home}scripts/record_jobs.py"
        " --files {input.files:q} {input.rows:q} {input.datasheets:q} {params.root:q}"
        " --output {output:q} 2> {log:q}"


rule bundle_run:
    """Put the run into one file: results, config, provenance, and the workflow that made it."""
    input:
        files=record.results(run),
        jobs="results/{run}/record/jobs.json",
    output:
        "results/{run}/bundle/{run}.zip",
    log:
        "logs/{run}/bundle_run.log",
    localrule: True  # it takes seconds
    conda:
        "../envs/environment.yaml"
    params:
        root=f"--root={placed('')}",
        folder=run.home or ".",
        workflow=record.source_files(run),
        own=record.outside(run, config["catalogues"]),
        # the source is not an input: to touch it must do nothing, to change it must count
        source=lambda w: record.source_content(run),
        catalogues=lambda w, output: config["catalogues"],
        datasets=used_datasets(config),
        rows="--include-rows" if config["bundle"]["include_rows"] else "",
        code=code("scripts/bundle_run.py"),
    shell:
        f"{python} {home}scripts/bundle_run.py"
        " --run {wildcards.run} --files {input.files:q} {params.root:q}"
        " --jobs {input.jobs:q} --source {params.folder:q} --workflow {params.workflow:q}"
        " --own-catalogues {params.own:q}"
        " --catalogues {params.catalogues:q} --datasets {params.datasets} {params.rows}"
        " --output {output:q} 2> {log:q}"


rule bundle:
    """Put the run into one file that anyone can verify: results/{run}/bundle/{run}.zip."""
    input:
        run.path("bundle", f"{config['run']}.zip"),
