# Precision: how far float arithmetic resolves kappa, on small problems of its own.
#
# Needs: config precision_study; no data. Makes: results/{run}/tables/precision.parquet


rule measure_precision:
    """Compare kappa from float32 and float64 with references in many digits."""
    output:
        "results/{run}/tables/precision.parquet",
    log:
        "logs/{run}/measure_precision.log",
    benchmark:
        "logs/{run}/measure_precision.tsv"
    conda:
        "../envs/environment.yaml"
    params:
        samples=config["precision_study"]["samples"],
        dim=config["precision_study"]["dim"],
        width=config["precision_study"]["width"],
        depths=config["precision_study"]["depths"],
        seeds=config["precision_study"]["seeds"],
        points=config["precision_study"]["points"],
        code=code("scripts/measure_precision.py"),
    shell:
        "python scripts/measure_precision.py --samples {params.samples} --dim {params.dim}"
        " --width {params.width} --depths {params.depths} --seeds {params.seeds}"
        " --points {params.points} --threads {threads} --output {output:q} 2> {log:q}"
