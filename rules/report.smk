# Report: one HTML file with the figures, their captions, the small tables and the record of a run.
#
# Needs: figures, tables, record. Makes: results/{run}/pages/*.html and results/{run}/report.html
#
# What is in it is said by `report(...)` around outputs: those of `render_pages`, of `render_figure`.
# Snakemake reports on a finished run, hence by a call of its own: that of `render_report`, or by hand
# snakemake --report results/demo/report.html


localrules:
    render_report,


rule render_pages:
    """Write the pages of the report: small tables, config and versions."""
    input:
        datasets="results/{run}/tables/datasets.parquet",
        conditioning="results/{run}/tables/conditioning.parquet",
        learning_rates="results/{run}/tables/learning_rates.parquet",
        config="results/{run}/record/config.yaml",
        versions="results/{run}/record/versions.json",
    output:
        report(
            "results/{run}/pages/datasets.html",
            category=CATEGORIES["tables"],
            labels={"table": "Datasheets"},
        ),
        report(
            "results/{run}/pages/conditioning.html",
            category=CATEGORIES["tables"],
            labels={"table": "Condition numbers"},
        ),
        report(
            "results/{run}/pages/learning_rates.html",
            category=CATEGORIES["tables"],
            labels={"table": "Best learning rates"},
        ),
        report(
            "results/{run}/pages/run.html",
            category=CATEGORIES["run"],
            labels={"page": "Config and versions"},
        ),
    log:
        "logs/{run}/render_pages.log",
    conda:
        "../envs/environment.yaml"
    params:
        folder="results/{run}/pages",
        code=code("scripts/render_pages.py"),
    shell:
        "python scripts/render_pages.py --tables {input.datasets:q} {input.conditioning:q}"
        " {input.learning_rates:q} --config {input.config:q}"
        " --versions {input.versions:q} --folder {params.folder:q} 2> {log:q}"


rule render_report:
    """Put figures, captions, pages and timings of the finished run into one HTML file."""
    input:
        rules.all.input,
        captions=expand("notebooks/{figure}.rst", figure=config["figures"]),
        front="rules/report.rst",
        style="rules/report.css",
    output:
        f"results/{RUN}/report.html",
    log:
        f"logs/{RUN}/render_report.log",
    handover: True  # to the Snakemake that is called; it needs no other environment
    params:
        # of this very run, wherever it was said: in files, on the command line, by a profile
        config=[
            f"{key}={json.dumps(value)}" for key, value in recorded_config().items()
        ],
    shell:
        "python -m snakemake all --report {output:q} --report-stylesheet {input.style:q} --nolock"
        " --config {params.config:q} &> {log:q}"


rule report:
    """Make the report of the run: snakemake report."""
    input:
        f"results/{RUN}/report.html",
