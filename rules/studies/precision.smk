# Precision: kappa in float32 and float64 against references in many digits.
#
# Makes: results/{run}/tables/precision.parquet


rule measure_precision:
    """Compare kappa from float32 and float64 with references in many digits."""
    input:
        checked("precision_study"),
    output:
        "results/{run}/tables/precision.parquet",
    log:
        "logs/{run}/measure_precision.log",
    benchmark:
        "logs/{run}/measure_precision.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("measure_precision", study="precision"),
    params:
        networks=options(config["precision_study"], "depths", "seeds", "width"),
        samples=options(config["precision_study"], "dim", "points", "samples"),
        code=code("scripts/measure_precision.py"),
    shell:
        f"{python} {home}scripts/measure_precision.py"
        " {params.networks:q} {params.samples:q} --threads {threads} --output {output:q}"
        " 2> {log:q}"
