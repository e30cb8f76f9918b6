# Figures: one papermill notebook each, listed in notebooks/figures.yaml.
#
# Needs: results/{run}/tables/. Makes: results/{run}/figures/{figure}.pdf and .png, and the executed
# notebook results/{run}/notebooks/{figure}.ipynb. A notebook that failed stays in logs/{run}.
# caption.rst leads the report to the caption beside the notebook.


rule render_figure:
    """Run one figure's notebook."""
    input:
        figure_tables,
    output:
        pdf="results/{run}/figures/{figure}.pdf",
        png=report(
            "results/{run}/figures/{figure}.png",
            caption="caption.rst",
            category=figure_category,
            subcategory=figure_title,
            labels=figure_labels,
        ),
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
