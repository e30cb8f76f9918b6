# Claims: what the papers state, compared with this run.
#
# Needs: papers/*.yaml and every table that they name.
# Makes: results/{run}/tables/claim_experiments.parquet, results/{run}/tables/claims.parquet, the
#        page results/{run}/claims.md and .html, and results/{run}/findings.rst for the report;
#        results/{run}/explorer.html


rule run_claim_experiments:
    """Run the numerical experiments that decide theorems, lemmas and misprints."""
    output:
        "results/{run}/tables/claim_experiments.parquet",
    log:
        "logs/{run}/run_claim_experiments.log",
    benchmark:
        "logs/{run}/run_claim_experiments.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("run_claim_experiments", study="claim_experiments"),
    params:
        papers=plan.papers_with_experiments,
        settings=plan.study("claim_experiments"),
        code=plan.code("scripts/run_claim_experiments.py"),
    shell:
        f"{python} {home}scripts/run_claim_experiments.py"
        " --papers {params.papers} {params.settings:q}"
        " --threads {threads} --output {output:q} 2> {log:q}"


rule check_claims:
    """Give a verdict on every claim, with the numbers."""
    input:
        papers=plan.paper_files,
        tables=plan.claimed_tables,
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
        code=plan.code("scripts/check_claims.py"),
    shell:
        f"{python} {home}scripts/check_claims.py"
        " --papers {input.papers:q}"
        " --tables {input.tables:q} --run {wildcards.run}"
        " --output {output.table:q} --markdown {output.markdown:q} --html {output.html:q}"
        " --findings {output.findings:q} 2> {log:q}"


rule render_explorer:
    """Write the explorer: charts of the run that answer to controls, in one file that works offline."""
    input:
        papers=plan.paper_files if plan.papers else [],
        tables=plan.explored_tables,
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
        code=plan.code("scripts/render_explorer.py"),
    shell:
        f"{python} {home}scripts/render_explorer.py"
        " --run {wildcards.run}"
        " --papers {input.papers:q} --tables {input.tables:q} --output {output:q} 2> {log:q}"


rule claims:
    """Give a verdict on every claim of the papers: results/{run}/claims.html."""
    input:
        plan.path("claims.html"),
