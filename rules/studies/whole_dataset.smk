# Whole datasets: kappa against the number of samples, exactly and by products with the kernel.
#
# Makes: results/{run}/whole_dataset/{dataset}/{activation}.parquet; sizes that are done are kept in
#        results/{run}/checkpoints, as cells are in spectra.smk.

whole_dataset_study = config["whole_dataset_study"]


rule measure_whole_dataset:
    """Condition kernels on more and more samples of one dataset."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet=checked(
            "whole_dataset_study", "results/{run}/datasets/{dataset}/all.json"
        ),
    output:
        "results/{run}/whole_dataset/{dataset}/{activation}.parquet",
    log:
        "logs/{run}/measure_whole_dataset/{dataset}/{activation}.log",
    benchmark:
        "logs/{run}/measure_whole_dataset/{dataset}/{activation}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("measure_whole_dataset", study="whole_dataset"),
    params:
        settings=options(
            whole_dataset_study, "depths", "seeds", "width", "samples", "bounded"
        ),
        activation=activation,
        checkpoints=with_prefix(
            "results/{run}/checkpoints/whole_dataset/{dataset}/{activation}"
        ),
        code=code("scripts/measure_whole_dataset.py"),
    shell:
        f"{python} {home}scripts/measure_whole_dataset.py"
        " --data {input.data:q} --dataset {wildcards.dataset} {params.activation:q}"
        " {params.settings:q} --threads {threads} --checkpoints {params.checkpoints:q}"
        " --code {params.code} --output {output:q} 2> {log:q}"
