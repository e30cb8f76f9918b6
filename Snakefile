# ntk-conditioning: how depth and activation condition the neural tangent kernel.
#
#   snakemake --cores 2                                 every figure of config.yaml
#   snakemake liu2023relu_fig2                          one figure and what it needs (targets first)
#   snakemake --configfile config/paper.yaml            the papers' own sizes
#   snakemake -n                                        what would run, and why
#   snakemake claims                                    the papers' claims, each with a verdict
#   snakemake advice                                    what to do with each of the run's datasets
#   snakemake bundle                                    the run as one file that anyone can verify
#   snakemake --profile slurm all                       the papers' own sizes on a cluster
#
# Inputs are described in datasets.yaml, choices in config.yaml, outputs in results/README.md.

from snakemake.utils import min_version

min_version("9.27")


include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/spectra.smk"
include: "rules/angles.smk"
include: "rules/training.smk"
include: "rules/advice.smk"
include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/claims.smk"
include: "rules/record.smk"
include: "rules/bundle.smk"


for study in rows.studies(run):  # those of the config that are not switched off

    include: f"rules/studies/{study}.smk"


rule all:
    """Every figure and table of the run, its claims and its record."""
    default_target: True
    input:
        [figures.files(run, figure) for figure in figures.drawn(run)],
        [run.path("tables", f"{table}.parquet") for table in run.tables],
        figures.pages(run),
        lambda w: rows.all_rows(run),


# A workflow that uses this one as a module has a report and targets of its own.
if not is_module:

    report: "rules/report.rst"

    rule suggest_target:
        """Name the targets that are like one that does not exist."""
        input:
            lambda w: figures.suggest(run, w.target),
        output:
            "{target}",
        wildcard_constraints:
            target=r"\w+",
