# Architectures: kernels at initialisation of networks of many kinds, along depth.
#
# Makes: results/{run}/architectures/{dataset}.parquet; networks that are done are kept in
#        results/{run}/checkpoints.

architectures_study = config["architectures_study"]


def networks(w):
    """The networks of the study as options, with their widths and depths, and a sample's image."""
    words = (
        ["--image", *map(str, image)] if (image := plan.image(run, w.dataset)) else []
    )
    for name in architectures_study["models"]:
        own = architectures_study["overrides"].get(name, {})
        depths = own.get("depths", architectures_study["depths"])
        for width in own.get("widths", architectures_study["widths"]):
            words += ["--network", name, *map(str, [width, *depths])]
        if name in run.models:
            words += ["--own-network", name, *config["models"][name].values()]
    return words


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
        activations=plan.activation_options(run, architectures_study["activations"]),
        networks=networks,
        settings=options(
            architectures_study, "infinite_width", "samples", "sample_seed", "seeds"
        ),
        checkpoints=placed("results/{run}/checkpoints/architectures/{dataset}"),
        code=code("scripts/measure_architectures.py", study=architectures_study),
    shell:
        f"{python} {home}scripts/measure_architectures.py"
        " --data {input.data:q}"
        " --dataset {wildcards.dataset} {params.activations:q} {params.networks:q}"
        " {params.settings:q} --threads {threads} --checkpoints {params.checkpoints:q}"
        " --code {params.code} --output {output:q} 2> {log:q}"
