# ntk-conditioning: how depth and activation condition the neural tangent kernel.
#
#   snakemake --cores 2                                 every figure of config.yaml
#   snakemake liu2023relu_fig2                          one figure and what it needs (targets first)
#   snakemake --configfile config/paper.yaml            the papers' own sizes
#   snakemake -n                                        what would run, and why
#   snakemake claims                                    the papers' claims, each with a verdict
#   make estimate                                       what it would take: core-hours, memory
#   snakemake bundle                                    the run as one file that anyone can verify
#   snakemake --profile slurm all                       the papers' own sizes on a cluster
#
# Inputs are described in datasets.yaml, choices in config.yaml, outputs in results/README.md.

from snakemake.utils import min_version

min_version("9.27")


configfile: "config.yaml"


report: "rules/report.rst"


include: "rules/common.smk"
include: "rules/samples.smk"
include: "rules/experiments.smk"
include: "rules/products.smk"
include: "rules/jobs.smk"
include: "rules/data.smk"
include: "rules/speech.smk"
include: "rules/spectra.smk"
include: "rules/bounds.smk"
include: "rules/assemblies.smk"
include: "rules/precision.smk"
include: "rules/activations.smk"
include: "rules/training.smk"
include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/claims.smk"
include: "rules/record.smk"
include: "rules/bundled.smk"
include: "rules/bundle.smk"


rule all:
    default_target: True
    input:
        figures=[figure_files(figure) for figure in config["figures"]],
        tables=expand("results/{run}/tables/{table}.parquet", run=RUN, table=TABLES),
        record=record_files(),
        pages=expand("results/{run}/pages/{page}.html", run=RUN, page=PAGES),
        cells=lost_cells(),


include: "rules/report.smk"  # of all the others
