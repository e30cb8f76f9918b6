# Bounds: kernels of infinite width on the unit sphere beside what agarwal2021deep proves of them.
#
# Needs: config bounds_study; results/{run}/datasets/{dataset}/all.npz.
# Makes: results/{run}/bounds/{dataset}/{activation}.parquet, all depths of one
#        activation, and the table
#        results/{run}/tables/bounds.parquet
#
# Starting a process takes longer than an activation, so a job computes all of a dataset.


BOUNDS_STUDY = config["bounds_study"]


rule compute_bounds:
    """Compare the kernels of one dataset with their bounds, along depth."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
    output:
        expand(
            "results/{{run}}/bounds/{{dataset}}/{activation}.parquet",
            activation=BOUNDS_STUDY["activations"],
        ),
    log:
        "logs/{run}/compute_bounds/{dataset}.log",
    benchmark:
        "logs/{run}/compute_bounds/{dataset}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=lambda w, attempt: resources.mem_mb(SIZES.bounds(w.dataset), attempt),
        runtime=lambda w, attempt: resources.runtime(
            "compute_bounds", SIZES.bounds(w.dataset), attempt
        ),
        core_seconds=lambda w: resources.core_seconds(
            "compute_bounds", SIZES.bounds(w.dataset)
        ),
    params:
        activations=BOUNDS_STUDY["activations"],
        depths=BOUNDS_STUDY["depths"],
        samples=BOUNDS_STUDY["samples"],
        seed=BOUNDS_STUDY["seed"],
        plugins=plugin_options(*BOUNDS_STUDY["activations"]),
        code=code("scripts/compute_bounds.py", *plugins(*BOUNDS_STUDY["activations"])),
    shell:
        "python scripts/compute_bounds.py --data {input.data:q} --dataset {wildcards.dataset}"
        " --activations {params.activations} {params.plugins:q} --depths {params.depths}"
        " --samples {params.samples} --seed {params.seed} --threads {threads}"
        " --outputs {output:q} 2> {log:q}"


rule aggregate_bounds:
    """Collect the comparisons of all datasets and activations."""
    input:
        bounds_cells(),
    output:
        "results/{run}/tables/bounds.parquet",
    log:
        "logs/{run}/aggregate_bounds.log",
    conda:
        "../envs/environment.yaml"
    params:
        datasets=BOUNDS_STUDY["datasets"],
        activations=BOUNDS_STUDY["activations"],
        code=code("scripts/aggregate_bounds.py"),
    shell:
        "python scripts/aggregate_bounds.py --cells results/{wildcards.run}/bounds"
        " --datasets {params.datasets} --activations {params.activations}"
        " --output {output:q} 2> {log:q}"
