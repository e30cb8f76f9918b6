# Claims: what the papers state, compared with this run.
#
# Needs: papers/*.yaml and every table that they name.
# Makes: results/{run}/tables/claims.parquet, the page results/{run}/claims.md and .html,
#        results/{run}/findings.rst for the report, and results/{run}/explorer.html

from ntk_workflow.explorer.charts import TABLES as explored

claimed = sorted({name for paper in run.papers.values() for name in paper.tables})


rule check_claims:
    """Give a verdict on every claim, with the numbers."""
    input:
        papers=lambda w: figures.paper_files(run),
        tables=lambda w: figures.table_files(run, claimed),
    output:
        table="results/{run}/tables/claims.parquet",
        markdown="results/{run}/claims.md",
        findings="results/{run}/findings.rst",
        html=report(
            "results/{run}/claims.html",
            category=listing.CATEGORIES["claims"],
            labels={"page": "Claims"},
        ),
    log:
        "logs/{run}/check_claims.log",
    conda:
        "../envs/environment.yaml"
    params:
        code=code("scripts/check_claims.py"),
    shell:
        f"{python} {home}scripts/check_claims.py"
        " --papers {input.papers:q} --tables {input.tables:q} --run {wildcards.run}"
        " --output {output.table:q} --markdown {output.markdown:q} --html {output.html:q}"
        " --findings {output.findings:q} 2> {log:q}"


rule render_explorer:
    """Write the explorer: charts of the run that answer to controls, in one file that works offline."""
    input:
        papers=lambda w: figures.paper_files(run) if run.papers else [],
        tables=lambda w: figures.table_files(run, explored),
    output:
        report(
            "results/{run}/explorer.html",
            category=listing.CATEGORIES["explorer"],
            labels={"page": "Explorer"},
        ),
    log:
        "logs/{run}/render_explorer.log",
    conda:
        "../envs/environment.yaml"
    params:
        titles=lambda w: datasets.titles(run),
        code=code("scripts/render_explorer.py"),
    shell:
        "NTK_DATASET_TITLES={params.titles:q} "
        f"{python} {home}scripts/render_explorer.py"
        " --run {wildcards.run} --papers {input.papers:q} --tables {input.tables:q}"
        " --output {output:q} 2> {log:q}"


rule claims:
    """Give a verdict on every claim of the papers: results/{run}/claims.html."""
    input:
        run.path("claims.html"),
