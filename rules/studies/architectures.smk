# Architectures: kernels at initialisation of networks of many kinds, along depth.
#
# Makes: results/{run}/architectures/{dataset}.parquet; networks that are done are kept in
#        results/{run}/checkpoints.

from ntk_workflow.studies.architectures import architecture_options

architectures_study = config["architectures_study"]


rule measure_architectures:
    """Measure kernels of networks of many architectures at initialisation, along depth."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet=checked(
            "architectures_study", "results/{run}/datasets/{dataset}/all.json"
        ),
    output:
        "results/{run}/architectures/{dataset}.parquet",
    log:
        "logs/{run}/measure_architectures/{dataset}.log",
    benchmark:
        "logs/{run}/measure_architectures/{dataset}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("measure_architectures", study="architectures"),
    params:
        activations=rows.activation_options(run, architectures_study["activations"]),
        networks=lambda w: architecture_options(config, run.image(w.dataset)),
        samples=options(architectures_study, "samples", "sample_seed"),
        settings=options(architectures_study, "infinite_width", "seeds"),
        checkpoints=with_prefix("results/{run}/checkpoints/architectures/{dataset}"),
        code=code("scripts/measure_architectures.py", study=architectures_study),
    shell:
        f"{python} {home}scripts/measure_architectures.py"
        " --data {input.data:q} --dataset {wildcards.dataset} {params.activations:q}"
        " {params.networks:q} {params.samples:q} {params.settings:q} --threads {threads}"
        " --checkpoints {params.checkpoints:q} --code {params.code} --output {output:q} 2> {log:q}"
