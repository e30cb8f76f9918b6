# Figures: one papermill notebook each, listed in notebooks/figures.yaml.
#
# Needs: results/{run}/tables/. Makes: results/{run}/figures/{figure}.pdf and .png, and the executed
# notebook results/{run}/notebooks/{figure}.ipynb. A notebook that failed stays in logs/{run}.
# On demand: results/{run}/paper/, all figures as a paper wants them, with captions.
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


PAPER_FIGURES = {target_name(figure): figure for figure in config["figures"]}


localrules:
    collect_paper_figures,


rule collect_paper_figures:
    """Collect the figures of the run for a paper, with captions in LaTeX and in Markdown."""
    input:
        pdfs=expand(
            "results/{run}/figures/{figure}.pdf",
            run=RUN,
            figure=PAPER_FIGURES.values(),
        ),
        captions=ancient(
            expand("notebooks/{figure}.rst", figure=PAPER_FIGURES.values())
        ),
    output:
        pdfs=expand("results/{run}/paper/{name}.pdf", run=RUN, name=PAPER_FIGURES),
        latex=f"results/{RUN}/paper/captions.tex",
        markdown=f"results/{RUN}/paper/captions.md",
    log:
        f"logs/{RUN}/collect_paper_figures.log",
    conda:
        "../envs/environment.yaml"
    params:
        figures=lambda w, input: [*map("=".join, zip(PAPER_FIGURES, input.pdfs))],
        captions=lambda w, input: [*map("=".join, zip(PAPER_FIGURES, input.captions))],
        # not from the input: Snakemake compares no parameters that are derived from files
        words=lambda w: [
            content(f"notebooks/{name}.rst") for name in PAPER_FIGURES.values()
        ],
        folder=lambda w, output: Path(output.latex).parent,
        code=code("scripts/collect_paper_figures.py"),
    shell:
        "python scripts/collect_paper_figures.py --figures {params.figures:q}"
        " --captions {params.captions:q} --folder {params.folder:q} 2> {log:q}"
