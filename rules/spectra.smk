# Spectra: one file for each row, all depths and seeds of one kernel, dataset and activation.
#
# Needs: results/{run}/datasets/{dataset}/: the draws of its samples and their datasheets.
# Makes: results/{run}/spectra/{kernel}/{dataset}/{activation}.parquet
#
# A cell, one depth and seed, is kept in results/{run}/checkpoints as soon as it is done: a row that
# was killed, or has a depth more, computes only what is missing. Finite and infinite width are
# rules of their own: an edit of one kernel's code must not rerun the other.


rule compute_spectrum:
    """Condition a kernel of networks of finite width on random blocks of one dataset."""
    input:
        data=ancient(draws("npz")),
        datasheets=draws("json"),
    output:
        "results/{run}/spectra/{kernel}/{dataset}/{activation}.parquet",
    log:
        "logs/{run}/compute_spectrum/{kernel}/{dataset}/{activation}.log",
    benchmark:
        "logs/{run}/compute_spectrum/{kernel}/{dataset}/{activation}.tsv"
    wildcard_constraints:
        kernel="empirical_ntk|empirical_nngp",
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("compute_spectrum"),
        device="cpu",
    params:
        settings=grid("depths", "seeds", "width", "dtype", "kernel_size", "blocks"),
        solver=grid("eigenvalues", "full_spectrum_below"),
        activation=activation,
        checkpoints=with_prefix(
            "results/{run}/checkpoints/spectra/{kernel}/{dataset}/{activation}"
        ),
        code=code("scripts/compute_spectrum.py"),
    shell:
        f"{python} {home}scripts/compute_spectrum.py"
        " --kernel {wildcards.kernel} --data {input.data:q} --dataset {wildcards.dataset}"
        " {params.activation:q} {params.settings:q} {params.solver:q} --device {resources.device}"
        " --threads {threads} --checkpoints {params.checkpoints:q} --code {params.code}"
        " --output {output:q} 2> {log:q}"


rule compute_infinite_spectrum:
    """Condition a kernel of infinite width on the same blocks."""
    input:
        data=ancient(draws("npz")),
        datasheets=draws("json"),
    output:
        "results/{run}/spectra/{kernel}/{dataset}/{activation}.parquet",
    log:
        "logs/{run}/compute_infinite_spectrum/{kernel}/{dataset}/{activation}.log",
    benchmark:
        "logs/{run}/compute_infinite_spectrum/{kernel}/{dataset}/{activation}.tsv"
    wildcard_constraints:
        kernel="infinite_ntk|nngp",
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("compute_infinite_spectrum"),
    params:
        kernel="{kernel}",
        settings=grid("depths", "seeds", "kernel_size", "blocks"),
        solver=grid("eigenvalues", "full_spectrum_below"),
        activations=activation,
        checkpoints=with_prefix(
            "results/{run}/checkpoints/spectra/{kernel}/{dataset}/{activation}"
        ),
        code=code("scripts/compute_infinite_spectrum.py"),
    shell:
        f"{python} {home}scripts/compute_infinite_spectrum.py"
        " --kernel {params.kernel} --data {input.data:q} --dataset {wildcards.dataset}"
        " {params.activations:q} {params.settings:q} {params.solver:q} --threads {threads}"
        " --checkpoints {params.checkpoints:q} --code {params.code} --output {output:q} 2> {log:q}"
