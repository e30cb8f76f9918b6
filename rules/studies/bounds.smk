# Bounds: kernels at infinite width beside the bounds of agarwal2021deep, along depth.
#
# Makes: results/{run}/bounds/{dataset}.parquet


rule compute_bounds:
    """Compare the kernels of one dataset with their bounds, along depth."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet=checked("bounds_study", "results/{run}/datasets/{dataset}/all.json"),
    output:
        "results/{run}/bounds/{dataset}.parquet",
    log:
        "logs/{run}/compute_bounds/{dataset}.log",
    benchmark:
        "logs/{run}/compute_bounds/{dataset}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("compute_bounds", study="bounds"),
    params:
        activations=rows.activation_options(run, config["bounds_study"]["activations"]),
        settings=options(config["bounds_study"], "depths", "samples", "seed"),
        code=code("scripts/compute_bounds.py", study=config["bounds_study"]),
    shell:
        f"{python} {home}scripts/compute_bounds.py"
        " --data {input.data:q} --dataset {wildcards.dataset} {params.activations:q}"
        " {params.settings:q} --threads {threads} --output {output:q} 2> {log:q}"
