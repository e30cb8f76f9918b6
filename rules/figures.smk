# Figures: one papermill notebook each, listed in notebooks/figures.yaml.
#
# Needs: results/{run}/tables/. Makes: results/{run}/figures/{figure}.pdf and .png, and the executed
# notebook results/{run}/notebooks/{figure}.ipynb. A notebook that failed stays in logs/{run}.


def figure_files(figure):
    """Return what a figure consists of."""
    return expand("results/{run}/figures/{figure}.{format}", run=RUN, figure=figure, format=["pdf", "png"])


def figure_tables(wildcards):
    """Return the tables that a figure's notebook reads."""
    return [f"results/{wildcards.run}/tables/{table}.parquet" for table in FIGURES[wildcards.figure]["tables"]]


def figure_parameters(wildcards, input, output):
    """Return a notebook's parameters as JSON: its tables, its figure files and config values."""
    spec = FIGURES[wildcards.figure]
    tables = {f"{table}_table": path for table, path in zip(spec["tables"], input)}
    values = {key: config[key] for key in spec.get("parameters", [])}
    return json.dumps({**tables, **values, "pdf": output.pdf, "png": output.png}, sort_keys=True)


def target_name(figure):
    """Return a figure's short target: liu2023relu_fig2 of liu2023relu/fig2_conditioning_vs_depth.

    A figure without a number has a long target: beyond_spectrum_decay.
    """
    paper, name = figure.split("/")
    short = name.split("_")[0]
    return f"{paper}_{short}" if re.fullmatch(r"fig\d+", short) else f"{paper}_{name}"


rule render_figure:
    """Run one figure's notebook."""
    input:
        figure_tables,
    output:
        pdf="results/{run}/figures/{figure}.pdf",
        png="results/{run}/figures/{figure}.png",
        notebook="results/{run}/notebooks/{figure}.ipynb",
    log:
        "logs/{run}/render_figure/{figure}.log",
    benchmark:
        "logs/{run}/render_figure/{figure}.tsv"
    conda:
        "../envs/environment.yaml"
    params:
        parameters=figure_parameters,
        failed="logs/{run}/render_figure/{figure}.failed.ipynb",
        code=lambda w: code("scripts/run_notebook.py", f"notebooks/{w.figure}.ipynb"),
    shell:
        "python scripts/run_notebook.py notebooks/{wildcards.figure}.ipynb"
        " --parameters {params.parameters:q} --output {output.notebook:q}"
        " --failed {params.failed:q} --outputs {output.pdf:q} {output.png:q} 2> {log:q}"


for figure in FIGURES:

    rule:
        name:
            target_name(figure)
        input:
            figure_files(figure),
