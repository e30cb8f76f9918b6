# Bundle: a run as one file that anyone can verify: snakemake bundle, or make bundle.
#
# Needs: all that the run makes. Makes: results/{run}/record/jobs.json, who made what, and
#        results/{run}/bundle/{run}.zip, an RO-Crate in a BagIt bag; neither is part of `all`.

from ntk_workflow.plan import record
from ntk_workflow.run import used_datasets


rule bundle_run:
    """Put the run into one file: results, config, provenance, and the workflow that made it."""
    input:
        files=record.results(run),
        rows=lambda w: rows.all_rows(run),
        datasheets=lambda w: datasets.datasheets(run),
    output:
        jobs="results/{run}/record/jobs.json",
        bundle="results/{run}/bundle/{run}.zip",
    log:
        "logs/{run}/bundle_run.log",
    localrule: True  # Snakemake's notes are beside it, and it takes seconds
    conda:
        "../envs/environment.yaml"
    params:
        root=f"--root={with_prefix('')}",
        folder=run.home or ".",
        workflow=record.source_files(run),
        own=record.outside(run, config["catalogues"]),
        # the source is not an input: to touch it must do nothing, to change it must count
        source=lambda w: record.source_content(run),
        catalogues=lambda w, output: config["catalogues"],
        datasets=used_datasets(config),
        include_rows="--include-rows" if config["bundle"]["include_rows"] else "",
        code=code("scripts/bundle_run.py"),
    shell:
        f"{python} {home}scripts/bundle_run.py"
        " --run {wildcards.run} --files {input.files:q} {params.root:q}"
        " --rows {input.rows:q} {input.datasheets:q} --source {params.folder:q}"
        " --workflow {params.workflow:q} --own-catalogues {params.own:q}"
        " --catalogues {params.catalogues:q} --datasets {params.datasets} {params.include_rows}"
        " --jobs {output.jobs:q} --output {output.bundle:q} 2> {log:q}"


rule bundle:
    """Put the run into one file that anyone can verify: results/{run}/bundle/{run}.zip."""
    input:
        run.path("bundle", f"{config['run']}.zip"),
