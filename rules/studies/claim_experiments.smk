# Claim experiments: numerical experiments that decide theorems, lemmas and misprints.
#
# Makes: results/{run}/tables/claim_experiments.parquet


rule run_claim_experiments:
    """Run the numerical experiments that decide theorems, lemmas and misprints."""
    input:
        checked("claim_experiments"),
    output:
        "results/{run}/tables/claim_experiments.parquet",
    log:
        "logs/{run}/run_claim_experiments.log",
    benchmark:
        "logs/{run}/run_claim_experiments.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("run_claim_experiments", study="claim_experiments"),
    params:
        papers=[
            name
            for name, paper in run.papers.items()
            if "claim_experiments" in paper.tables
        ],
        settings=options(config["claim_experiments"], "depths", "seeds", "widths"),
        code=code("scripts/run_claim_experiments.py"),
    shell:
        f"{python} {home}scripts/run_claim_experiments.py"
        " --papers {params.papers} {params.settings:q} --threads {threads} --output {output:q}"
        " 2> {log:q}"
