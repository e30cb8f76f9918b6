# Orthogonality: angles between neurons' gradients, after liu2022transition.
#
# Makes: results/{run}/orthogonality/{dataset}/{architecture}.parquet; networks that are done are
#        kept in results/{run}/checkpoints.

orthogonality_study = config["orthogonality_study"]


rule measure_orthogonality:
    """Measure the angles between neurons' gradients, before and after training."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet=checked(
            "orthogonality_study", "results/{run}/datasets/{dataset}/all.json"
        ),
    output:
        "results/{run}/orthogonality/{dataset}/{architecture}.parquet",
    log:
        "logs/{run}/measure_orthogonality/{dataset}/{architecture}.log",
    benchmark:
        "logs/{run}/measure_orthogonality/{dataset}/{architecture}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("measure_orthogonality", study="orthogonality"),
        device="cpu",
    params:
        network=lambda w: rows.architecture_options(
            run, w.architecture, orthogonality_study
        ),
        activations=rows.activation_options(run, orthogonality_study["activations"]),
        samples=options(orthogonality_study, "samples", "sample_seed", "label_scales"),
        training=options(orthogonality_study, "seeds", "widths", "steps", "step_size"),
        checkpoints=with_prefix(
            "results/{run}/checkpoints/orthogonality/{dataset}/{architecture}"
        ),
        code=code("scripts/measure_orthogonality.py", study=orthogonality_study),
    shell:
        f"{python} {home}scripts/measure_orthogonality.py"
        " --data {input.data:q} --dataset {wildcards.dataset}"
        " --architecture {wildcards.architecture} {params.activations:q} {params.network:q}"
        " {params.samples:q} {params.training:q} --device {resources.device} --threads {threads}"
        " --checkpoints {params.checkpoints:q} --code {params.code} --output {output:q} 2> {log:q}"
