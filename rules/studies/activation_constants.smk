# Constants of activations: Hermite coefficients, non-linearity, fixed points.
#
# Makes: results/{run}/tables/activations.parquet


rule measure_activations:
    """Measure Hermite coefficients, non-linearity and fixed points of activations."""
    input:
        checked("activation_constants"),
    output:
        "results/{run}/tables/activations.parquet",
    log:
        "logs/{run}/measure_activations.log",
    conda:
        "../../envs/environment.yaml"
    params:
        activations=rows.activation_options(run, config["activation_constants"]),
        code=code(
            "scripts/measure_activations.py",
            study={"activations": config["activation_constants"]},
        ),
    shell:
        f"{python} {home}scripts/measure_activations.py"
        " {params.activations:q} --output {output:q} 2> {log:q}"
