# Activations: the constants that decide what depth does.
#
# Needs: config activation_constants; no data. Makes: results/{run}/tables/activations.parquet


rule measure_activations:
    """Measure Hermite coefficients, non-linearity and fixed points of activations."""
    output:
        "results/{run}/tables/activations.parquet",
    log:
        "logs/{run}/measure_activations.log",
    conda:
        "../envs/environment.yaml"
    params:
        activations=config["activation_constants"],
        plugins=plugin_options(*config["activation_constants"]),
        code=code(
            "scripts/measure_activations.py",
            *plugins(*config["activation_constants"]),
        ),
    shell:
        "python scripts/measure_activations.py --activations {params.activations:q}"
        " {params.plugins:q} --output {output:q} 2> {log:q}"
