# Record: what a run was asked for and with which software, and the pages of its report.
#
# Makes: results/{run}/record/config.yaml and versions.json; results/{run}/pages/{page}.html

from ntk_workflow.plan import record
from ntk_workflow.provenance.versions import libraries


rule record_run:
    """Write down the run's config and the versions of the software."""
    output:
        config="results/{run}/record/config.yaml",
        versions="results/{run}/record/versions.json",
    log:
        "logs/{run}/record_run.log",
    conda:
        "../envs/environment.yaml"
    params:
        config=record.given_config(run),
        workflow=lambda w: record.all_code(run),
        # not passed on: the job has its own look, but it is to look again when they change
        libraries=[f"{name} {version}" for name, version in libraries().items()],
        code=code("scripts/record_run.py"),
    shell:
        f"{python} {home}scripts/record_run.py"
        " --config {params.config:q}"
        " --workflow-digest {params.workflow} --config-output {output.config:q}"
        " --versions-output {output.versions:q} 2> {log:q}"


rule render_page:
    """Write a page of the report: a small table, or config and versions."""
    input:
        lambda w: (
            [run.path("record", name) for name in ("config.yaml", "versions.json")]
            if w.page == "run"
            else run.path("tables", f"{w.page}.parquet")
        ),
    output:
        report(
            "results/{run}/pages/{page}.html",
            category=lambda w: listing.CATEGORIES[
                "run" if w.page == "run" else "tables"
            ],
            labels=lambda w: {"page": listing.PAGES[w.page]},
        ),
    log:
        "logs/{run}/render_page/{page}.log",
    wildcard_constraints:
        page="|".join(listing.PAGES),
    conda:
        "../envs/environment.yaml"
    params:
        code=code("scripts/render_page.py"),
    shell:
        f"{python} {home}scripts/render_page.py"
        " --sources {input:q} --output {output:q} 2> {log:q}"
