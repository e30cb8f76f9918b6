# Claims: what the papers state, compared with this run.
#
# Needs: papers/*.yaml and every table that they name.
# Makes: results/{run}/tables/statements.parquet, results/{run}/tables/claims.parquet and the page
# results/{run}/claims.md and .html


from ntk_workflow.claims import tables as papers

try:
    PAPERS = papers.read(config["papers"], folder="papers", tables=TABLES)
except ValueError as error:
    raise WorkflowError(f"The papers' claims have mistakes:\n{error}") from None


rule measure_statements:
    """Run the numerical experiments that decide theorems, lemmas and misprints."""
    output:
        "results/{run}/tables/statements.parquet",
    log:
        "logs/{run}/measure_statements.log",
    benchmark:
        "logs/{run}/measure_statements.tsv"
    conda:
        "../envs/environment.yaml"
    params:
        papers=papers.with_experiments(PAPERS),
        widths=config["statements"]["widths"],
        depths=config["statements"]["depths"],
        seeds=config["statements"]["seeds"],
        code=code("scripts/measure_statements.py"),
    shell:
        "python scripts/measure_statements.py --papers {params.papers} --widths {params.widths}"
        " --depths {params.depths} --seeds {params.seeds} --threads {threads}"
        " --output {output:q} 2> {log:q}"


rule check_claims:
    """Give a verdict on every claim, with the numbers."""
    input:
        papers=expand("papers/{paper}.yaml", paper=config["papers"]),
        tables=expand(
            "results/{{run}}/tables/{table}.parquet", table=papers.tables(PAPERS)
        ),
    output:
        table="results/{run}/tables/claims.parquet",
        markdown="results/{run}/claims.md",
        html=report(
            "results/{run}/claims.html",
            category=CATEGORIES["claims"],
            labels={"page": "Claims"},
        ),
    log:
        "logs/{run}/check_claims.log",
    conda:
        "../envs/environment.yaml"
    params:
        code=code("scripts/check_claims.py"),
    shell:
        "python scripts/check_claims.py --papers {input.papers:q}"
        " --tables {input.tables:q} --run {wildcards.run}"
        " --output {output.table:q} --markdown {output.markdown:q} --html {output.html:q}"
        " 2> {log:q}"


rule claims:
    """The claims of the papers with their verdicts: results/{run}/claims.html."""
    input:
        expand("results/{run}/claims.html", run=RUN),
