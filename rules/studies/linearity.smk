# Linearity: how far networks are from linear, after liu2022transition.
#
# Makes: results/{run}/linearity/{dataset}/{architecture}.parquet; networks that are done are kept
#        in results/{run}/checkpoints.
#        results/{run}/tables/width_slopes.parquet, of orthogonality too

linearity_study = config["linearity_study"]


rule measure_linearity:
    """Measure how far networks are from linear: Hessian, quadratic term, change of the NTK."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet=checked(
            "linearity_study", "results/{run}/datasets/{dataset}/all.json"
        ),
    output:
        "results/{run}/linearity/{dataset}/{architecture}.parquet",
    log:
        "logs/{run}/measure_linearity/{dataset}/{architecture}.log",
    benchmark:
        "logs/{run}/measure_linearity/{dataset}/{architecture}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("measure_linearity", study="linearity"),
        device="cpu",
    params:
        network=lambda w: rows.architecture_options(
            run, w.architecture, linearity_study
        ),
        activations=rows.activation_options(run, linearity_study["activations"]),
        samples=options(linearity_study, "samples", "sample_seed", "expansions"),
        search=options(linearity_study, "radii", "directions"),
        training=options(linearity_study, "seeds", "widths", "steps", "step_size"),
        checkpoints=with_prefix(
            "results/{run}/checkpoints/linearity/{dataset}/{architecture}"
        ),
        code=code("scripts/measure_linearity.py", study=linearity_study),
    shell:
        f"{python} {home}scripts/measure_linearity.py"
        " --data {input.data:q} --dataset {wildcards.dataset}"
        " --architecture {wildcards.architecture} {params.activations:q} {params.network:q}"
        " {params.samples:q} {params.search:q} {params.training:q} --device {resources.device}"
        " --threads {threads} --checkpoints {params.checkpoints:q} --code {params.code}"
        " --output {output:q} 2> {log:q}"


rule fit_width_slopes:
    """Fit power laws of orthogonality and linearity in the width."""
    input:
        orthogonality="results/{run}/tables/orthogonality.parquet",
        linearity="results/{run}/tables/linearity.parquet",
    output:
        "results/{run}/tables/width_slopes.parquet",
    log:
        "logs/{run}/fit_width_slopes.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("scripts/fit_width_slopes.py"),
    shell:
        f"{python} {home}scripts/fit_width_slopes.py"
        " --orthogonality {input.orthogonality:q} --linearity {input.linearity:q}"
        " --output {output:q} 2> {log:q}"
