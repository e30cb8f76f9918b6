# Repairs: what preconditioning of samples and of kernels gives.
#
# Makes: results/{run}/repairs/{dataset}.parquet


rule measure_repairs:
    """Measure what repairs of samples and kernels give in kappa and in predicted steps."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet=checked("repairs_study", "results/{run}/datasets/{dataset}/all.json"),
    output:
        "results/{run}/repairs/{dataset}.parquet",
    log:
        "logs/{run}/measure_repairs/{dataset}.log",
    benchmark:
        "logs/{run}/measure_repairs/{dataset}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("measure_repairs", study="repairs"),
    params:
        activations=rows.activation_options(run, config["repairs_study"]["activations"]),
        settings=options(
            config["repairs_study"], "depths", "directions", "samples", "seeds"
        ),
        code=code("scripts/measure_repairs.py", study=config["repairs_study"]),
    shell:
        f"{python} {home}scripts/measure_repairs.py"
        " --data {input.data:q} --dataset {wildcards.dataset} {params.activations:q}"
        " {params.settings:q} --threads {threads} --output {output:q} 2> {log:q}"
