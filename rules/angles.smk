# Smallest angles between the gradients of any two samples of a dataset: one file for each row.
#
# Needs: results/{run}/datasets/{dataset}/: the draws of its samples and their datasheets.
# Makes: results/{run}/angles/{kernel}/{dataset}/{activation}.parquet, of empirical_ntk and
#        infinite_ntk; cells are kept as in spectra.smk.


rule compute_min_angle:
    """Find the smallest gradient angle of finite networks over all pairs of a dataset."""
    input:
        data=ancient(plan.prepared("npz")),
        datasheets=plan.prepared("json"),
    output:
        "results/{run}/angles/empirical_ntk/{dataset}/{activation}.parquet",
    log:
        "logs/{run}/compute_min_angle/{dataset}/{activation}.log",
    benchmark:
        "logs/{run}/compute_min_angle/{dataset}/{activation}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=sizes.mem_mb("compute_min_angle"),
        runtime=sizes.runtime("compute_min_angle"),
        core_seconds=sizes.core_seconds("compute_min_angle"),
        device="cpu",
    params:
        depths=plan.depths,
        seeds=plan.seeds,
        width=plan.config["width"],
        exclude="--exclude-duplicates" if plan.config["exclude_duplicates"] else "",
        plugins=plan.activation,
        checkpoints="results/{run}/checkpoints/angles/empirical_ntk/{dataset}/{activation}",
        code=plan.code("scripts/compute_min_angle.py"),
    shell:
        "python scripts/compute_min_angle.py --data {input.data:q} --dataset {wildcards.dataset}"
        " --activation {wildcards.activation} {params.plugins:q} --depths {params.depths}"
        " --seeds {params.seeds} --width {params.width} {params.exclude}"
        " --device {resources.device} --threads {threads} --checkpoints {params.checkpoints:q}"
        " --output {output:q} 2> {log:q}"


rule compute_infinite_min_angle:
    """Find the smallest gradient angle at infinite width, where a seed only draws the samples."""
    input:
        data=ancient(plan.prepared("npz")),
        datasheets=plan.prepared("json"),
    output:
        "results/{run}/angles/infinite_ntk/{dataset}/{activation}.parquet",
    log:
        "logs/{run}/compute_infinite_min_angle/{dataset}/{activation}.log",
    benchmark:
        "logs/{run}/compute_infinite_min_angle/{dataset}/{activation}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=sizes.mem_mb("compute_infinite_min_angle"),
        runtime=sizes.runtime("compute_infinite_min_angle"),
        core_seconds=sizes.core_seconds("compute_infinite_min_angle"),
    params:
        depths=plan.depths,
        seeds=plan.drawing_seeds,
        exclude="--exclude-duplicates" if plan.config["exclude_duplicates"] else "",
        plugins=plan.activation,
        checkpoints="results/{run}/checkpoints/angles/infinite_ntk/{dataset}/{activation}",
        code=plan.code("scripts/compute_infinite_min_angle.py"),
    shell:
        "python scripts/compute_infinite_min_angle.py --data {input.data:q}"
        " --dataset {wildcards.dataset} --activation {wildcards.activation} {params.plugins:q}"
        " --depths {params.depths} --seeds {params.seeds} {params.exclude} --threads {threads}"
        " --checkpoints {params.checkpoints:q} --output {output:q} 2> {log:q}"
