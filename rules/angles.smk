# Smallest angles between the gradients of any two samples of a dataset: one file for each row.
#
# Needs: results/{run}/datasets/{dataset}/: the draws of its samples and their datasheets.
# Makes: results/{run}/angles/{kernel}/{dataset}/{activation}.parquet, of empirical_ntk and
#        infinite_ntk; cells are kept as in spectra.smk.


rule compute_min_angle:
    """Find the smallest gradient angle of finite networks over all pairs of a dataset."""
    input:
        data=ancient(draws("npz")),
        datasheets=draws("json"),
    output:
        "results/{run}/angles/empirical_ntk/{dataset}/{activation}.parquet",
    log:
        "logs/{run}/compute_min_angle/{dataset}/{activation}.log",
    benchmark:
        "logs/{run}/compute_min_angle/{dataset}/{activation}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("compute_min_angle"),
        device="cpu",
    params:
        settings=grid("depths", "seeds", "width", "exclude_duplicates"),
        activation=activation,
        checkpoints=with_prefix(
            "results/{run}/checkpoints/angles/empirical_ntk/{dataset}/{activation}"
        ),
        code=code("scripts/compute_min_angle.py"),
    shell:
        f"{python} {home}scripts/compute_min_angle.py"
        " --data {input.data:q} --dataset {wildcards.dataset} {params.activation:q}"
        " {params.settings:q} --device {resources.device} --threads {threads}"
        " --checkpoints {params.checkpoints:q} --code {params.code} --output {output:q} 2> {log:q}"


rule compute_infinite_min_angle:
    """Find the smallest gradient angle at infinite width, where a seed only draws the samples."""
    input:
        data=ancient(draws("npz")),
        datasheets=draws("json"),
    output:
        "results/{run}/angles/infinite_ntk/{dataset}/{activation}.parquet",
    log:
        "logs/{run}/compute_infinite_min_angle/{dataset}/{activation}.log",
    benchmark:
        "logs/{run}/compute_infinite_min_angle/{dataset}/{activation}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("compute_infinite_min_angle"),
    params:
        settings=grid("depths", "exclude_duplicates"),
        seeds=lambda w: datasets.drawing_seeds(run, w.dataset),
        activation=activation,
        checkpoints=with_prefix(
            "results/{run}/checkpoints/angles/infinite_ntk/{dataset}/{activation}"
        ),
        code=code("scripts/compute_infinite_min_angle.py"),
    shell:
        f"{python} {home}scripts/compute_infinite_min_angle.py"
        " --data {input.data:q} --dataset {wildcards.dataset} {params.activation:q}"
        " {params.settings:q} --seeds {params.seeds} --threads {threads}"
        " --checkpoints {params.checkpoints:q} --code {params.code} --output {output:q} 2> {log:q}"
