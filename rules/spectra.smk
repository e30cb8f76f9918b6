# Cells: one file for each grid point and seed, one job for all seeds of a grid point.
#
# Needs: results/{run}/datasets/{dataset}/: the draws of its samples and their datasheets.
# Makes: results/{run}/spectra/{kernel}/{dataset}/{activation}/depth-{depth}/seed-{seed}.parquet
#        results/{run}/angles/...      the same; seed-none at infinite width, of a whole dataset
#
# Starting a process takes longer than a small cell, so a job computes the seeds one by one and
# writes each one's file as soon as it is done. Finite and infinite width are rules of their own:
# they have other parameters, and an edit of one kernel's code must not rerun the other.


rule compute_spectrum:
    """Condition the NTK of a network of finite width on random blocks of one dataset."""
    input:
        data=prepared_data,
        datasheets=prepared_datasheets,
    output:
        expand(
            "results/{{run}}/spectra/empirical_ntk/{{dataset}}/{{activation}}/depth-{{depth}}/seed-{seed}.parquet",
            seed=config["seeds"],
        ),
    log:
        "logs/{run}/compute_spectrum/{dataset}/{activation}/depth-{depth}.log",
    benchmark:
        "logs/{run}/compute_spectrum/{dataset}/{activation}/depth-{depth}.tsv"
    conda:
        "../envs/environment.yaml"
    params:
        seeds=config["seeds"],
        width=config["width"],
        dtype=config["dtype"],
        kernel_size=lambda w: setting("kernel_size", w.dataset),
        blocks=lambda w: setting("blocks", w.dataset),
        eigenvalues=config["eigenvalues"],
        plugins=lambda w: [
            f"--activation-file={file}" for file in plugins(w.activation)
        ],
        code=lambda w: code("scripts/compute_spectrum.py", activation=w.activation),
    shell:
        "python scripts/compute_spectrum.py --data {input.data:q} --dataset {wildcards.dataset}"
        " --activation {wildcards.activation} {params.plugins:q} --depth {wildcards.depth}"
        " --seeds {params.seeds} --width {params.width} --dtype {params.dtype}"
        " --kernel-size {params.kernel_size} --blocks {params.blocks}"
        " --eigenvalues {params.eigenvalues} --threads {threads} --outputs {output:q} 2> {log:q}"


rule compute_infinite_spectrum:
    """Condition a kernel of infinite width on the same blocks."""
    input:
        data=prepared_data,
        datasheets=prepared_datasheets,
    output:
        expand(
            "results/{{run}}/spectra/{{kernel}}/{{dataset}}/{{activation}}/depth-{{depth}}/seed-{seed}.parquet",
            seed=config["seeds"],
        ),
    log:
        "logs/{run}/compute_infinite_spectrum/{kernel}/{dataset}/{activation}/depth-{depth}.log",
    benchmark:
        "logs/{run}/compute_infinite_spectrum/{kernel}/{dataset}/{activation}/depth-{depth}.tsv"
    wildcard_constraints:
        kernel="infinite_ntk|nngp",
    conda:
        "../envs/environment.yaml"
    params:
        seeds=config["seeds"],
        kernel_size=lambda w: setting("kernel_size", w.dataset),
        blocks=lambda w: setting("blocks", w.dataset),
        eigenvalues=config["eigenvalues"],
        plugins=lambda w: [
            f"--activation-file={file}" for file in plugins(w.activation)
        ],
        code=lambda w: code(
            "scripts/compute_infinite_spectrum.py", activation=w.activation
        ),
    shell:
        "python scripts/compute_infinite_spectrum.py --kernel {wildcards.kernel}"
        " --data {input.data:q} --dataset {wildcards.dataset}"
        " --activation {wildcards.activation} {params.plugins:q} --depth {wildcards.depth}"
        " --seeds {params.seeds} --kernel-size {params.kernel_size} --blocks {params.blocks}"
        " --eigenvalues {params.eigenvalues} --threads {threads} --outputs {output:q} 2> {log:q}"


rule compute_min_angle:
    """Find the smallest gradient angle of a finite network over all pairs of a dataset."""
    input:
        data=prepared_data,
        datasheets=prepared_datasheets,
    output:
        expand(
            "results/{{run}}/angles/empirical_ntk/{{dataset}}/{{activation}}/depth-{{depth}}/seed-{seed}.parquet",
            seed=config["seeds"],
        ),
    log:
        "logs/{run}/compute_min_angle/{dataset}/{activation}/depth-{depth}.log",
    benchmark:
        "logs/{run}/compute_min_angle/{dataset}/{activation}/depth-{depth}.tsv"
    conda:
        "../envs/environment.yaml"
    params:
        seeds=config["seeds"],
        width=config["width"],
        exclude="--exclude-duplicates" if config["exclude_duplicates"] else "",
        plugins=lambda w: [
            f"--activation-file={file}" for file in plugins(w.activation)
        ],
        code=lambda w: code("scripts/compute_min_angle.py", activation=w.activation),
    shell:
        "python scripts/compute_min_angle.py --data {input.data:q} --dataset {wildcards.dataset}"
        " --activation {wildcards.activation} {params.plugins:q} --depth {wildcards.depth}"
        " --seeds {params.seeds} --width {params.width} {params.exclude}"
        " --threads {threads} --outputs {output:q} 2> {log:q}"


rule compute_infinite_min_angle:
    """Find the smallest gradient angle at infinite width, where a seed only draws the samples."""
    input:
        data=prepared_data,
        datasheets=prepared_datasheets,
    output:
        "results/{run}/angles/infinite_ntk/{dataset}/{activation}/depth-{depth}/seed-{seed}.parquet",
    log:
        "logs/{run}/compute_infinite_min_angle/{dataset}/{activation}/depth-{depth}/seed-{seed}.log",
    benchmark:
        "logs/{run}/compute_infinite_min_angle/{dataset}/{activation}/depth-{depth}/seed-{seed}.tsv"
    wildcard_constraints:
        seed=r"none|\d+",
    conda:
        "../envs/environment.yaml"
    params:
        seed=lambda w: "" if w.seed == "none" else f"--seed {w.seed}",
        exclude="--exclude-duplicates" if config["exclude_duplicates"] else "",
        plugins=lambda w: [
            f"--activation-file={file}" for file in plugins(w.activation)
        ],
        code=lambda w: code(
            "scripts/compute_infinite_min_angle.py", activation=w.activation
        ),
    shell:
        "python scripts/compute_infinite_min_angle.py --data {input.data:q}"
        " --dataset {wildcards.dataset} --activation {wildcards.activation} {params.plugins:q}"
        " --depth {wildcards.depth} {params.seed} {params.exclude} --threads {threads}"
        " --output {output:q} 2> {log:q}"
