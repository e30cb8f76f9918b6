# Figures: one papermill notebook each, listed in notebooks/figures.yaml.
#
# Needs: results/{run}/tables/. Makes: results/{run}/figures/{figure}.pdf and .png, the executed
# notebook results/{run}/notebooks/{figure}.ipynb, which stays in logs/{run} if it failed, and, on
# demand, results/{run}/paper/, all figures as a paper wants them, with captions.


rule render_figure:
    """Run one figure's notebook."""
    input:
        lambda w: figures.inputs(run, w.figure),
    output:
        pdf="results/{run}/figures/{figure}.pdf",
        png=report(
            "results/{run}/figures/{figure}.png",
            caption="caption.rst",
            category=lambda w: listing.CATEGORIES.get(w.figure.split("/")[0]),
            subcategory=lambda w: listing.title(w.figure),
            labels=lambda w: {"figure": Path(w.figure).name.replace("_", " ")},
        ),
        notebook="results/{run}/notebooks/{figure}.ipynb",
    log:
        "logs/{run}/render_figure/{figure}.log",
    benchmark:
        "logs/{run}/render_figure/{figure}.tsv"
    conda:
        "../envs/environment.yaml"
    params:
        parameters=lambda w: figures.notebook_parameters(run, w.figure),
        titles=lambda w: datasets.titles(run),
        # not passed on: the report reads it
        caption=lambda w: f"{run.home}notebooks/{w.figure}.rst",
        failed=with_prefix("logs/{run}/render_figure/{figure}.failed.ipynb"),
        code=code("scripts/run_notebook.py", "notebooks/{figure}.ipynb"),
    shell:
        "NTK_DATASET_TITLES={params.titles:q} "
        f"{python} {home}scripts/run_notebook.py {home}notebooks/"
        "{wildcards.figure}.ipynb"
        " --parameters {params.parameters:q} --output {output.notebook:q}"
        " --failed {params.failed:q} --outputs {output.pdf:q} {output.png:q} 2> {log:q}"


for figure in run.figures:

    rule:
        """Draw this figure, from what it needs alone."""
        name:
            listing.target(figure)
        input:
            figures.files(run, figure),


collected = {listing.target(figure): figure for figure in figures.drawn(run)}
captions = {name: f"notebooks/{figure}.rst" for name, figure in collected.items()}


rule collect_paper_figures:
    """Collect the figures of the run for a paper, with captions in LaTeX and in Markdown."""
    input:
        pdfs=[figures.files(run, figure)[0] for figure in collected.values()],
    output:
        [run.path("paper", f"{name}.pdf") for name in collected],
        latex=run.path("paper", "captions.tex"),
        markdown=run.path("paper", "captions.md"),
    log:
        f"logs/{config['run']}/collect_paper_figures.log",
    localrule: True
    conda:
        "../envs/environment.yaml"
    params:
        figures=lambda w, input: [*map("=".join, zip(collected, input.pdfs))],
        captions=[f"{name}={run.home}{path}" for name, path in captions.items()],
        # captions are no inputs, so that to touch them does nothing
        words=[datasets.content(f"{checkout}/{path}") for path in captions.values()],
        code=code("scripts/collect_paper_figures.py"),
    shell:
        f"{python} {home}scripts/collect_paper_figures.py"
        " --figures {params.figures:q} --captions {params.captions:q}"
        " --folder $(dirname {output.latex:q}) 2> {log:q}"
