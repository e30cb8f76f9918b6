# What a run costs, before it is started: snakemake estimate, or make estimate.
#
# Needs: nothing; with the logs and cells of earlier runs it knows more.
# Makes: a table of jobs, core-hours, GPU-hours and memory on the screen.


localrules:
    estimate,


rule estimate:
    """Print what the jobs of this config take that are not done yet."""
    log:
        f"logs/{RUN}/estimate.log",
    conda:
        "../envs/environment.yaml"
    params:
        jobs=lambda _: planned_jobs(),
    shell:
        "python scripts/estimate_costs.py --jobs {params.jobs:q} 2> {log:q}"
