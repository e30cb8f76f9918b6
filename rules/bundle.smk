# Bundle: a run as one file that anyone can verify: snakemake bundle, or make bundle.
#
# Needs: all that the run makes. Makes: results/{run}/record/jobs.json, who made what, and
#        results/{run}/bundle/{run}.zip, an RO-Crate in a BagIt bag. scripts/verify_bundle.py
#        checks it. Neither is part of `all`.


rule record_jobs:
    """Write down who made the run's files: code, inputs, outputs, device and times of every job."""
    input:
        files=plan.results,
        rows=plan.all_rows,
        datasheets=plan.datasheets(),
    output:
        "results/{run}/record/jobs.json",
    log:
        "logs/{run}/record_jobs.log",
    localrule: True  # Snakemake's notes are beside it
    conda:
        "../envs/environment.yaml"
    params:
        root=plan.root,
        code=plan.code("scripts/record_jobs.py"),
    shell:
        f"{python} {home}scripts/record_jobs.py"
        " --files {input.files:q} {input.rows:q} {input.datasheets:q} {params.root:q}"
        " --output {output:q} 2> {log:q}"


rule bundle_run:
    """Put the run into one file: results, config, provenance, and the workflow that made it."""
    input:
        files=plan.results,
        jobs="results/{run}/record/jobs.json",
    output:
        "results/{run}/bundle/{run}.zip",
    log:
        "logs/{run}/bundle_run.log",
    localrule: True  # it takes seconds
    conda:
        "../envs/environment.yaml"
    params:
        root=plan.root,
        folder=plan.home or ".",
        workflow=plan.source_files,
        own=plan.own_files(plan.config["catalogues"]),
        # the source is not an input: to touch it must do nothing, to change it must count
        source=plan.source_content,
        catalogues=plan.catalogues,
        datasets=plan.used_datasets,
        rows="--include-rows" if plan.config["bundle"]["include_rows"] else "",
        code=plan.code("scripts/bundle_run.py"),
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
        plan.path("bundle", f"{plan.config['run']}.zip"),
