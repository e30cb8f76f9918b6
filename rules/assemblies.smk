# Assemblies of neurons: orthogonal gradients and linear networks, after liu2022transition.
#
# Needs: config architectures, orthogonality_study, linearity_study;
#        results/{run}/datasets/{dataset}/all.npz.
# Makes: results/{run}/orthogonality/{dataset}/{architecture}/{activation}/width-{width}.parquet
#        results/{run}/linearity/...  the same, and the tables orthogonality, linearity and
#        width_slopes in results/{run}/tables/
#
# A job computes all widths of one network. Those that are done are kept, in
# results/{run}/checkpoints/.


ORTHOGONALITY_STUDY = config["orthogonality_study"]
LINEARITY_STUDY = config["linearity_study"]


rule measure_orthogonality:
    """Measure the angles between neurons' gradients, before and after training."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
    output:
        expand(
            "results/{{run}}/orthogonality/{{dataset}}/{{architecture}}/{{activation}}/width-{width}.parquet",
            width=ORTHOGONALITY_STUDY["widths"],
        ),
    log:
        "logs/{run}/measure_orthogonality/{dataset}/{architecture}/{activation}.log",
    benchmark:
        "logs/{run}/measure_orthogonality/{dataset}/{architecture}/{activation}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=assembly_memory("orthogonality"),
        runtime=assembly_minutes("orthogonality"),
        core_seconds=assembly_seconds("orthogonality"),
        device="cpu",
    params:
        network=assembly_options("orthogonality"),
        widths=ORTHOGONALITY_STUDY["widths"],
        seeds=ORTHOGONALITY_STUDY["seeds"],
        samples=ORTHOGONALITY_STUDY["samples"],
        sample_seed=ORTHOGONALITY_STUDY["sample_seed"],
        steps=ORTHOGONALITY_STUDY["steps"],
        rate=ORTHOGONALITY_STUDY["rate"],
        checkpoints="results/{run}/checkpoints/orthogonality/{dataset}/{architecture}/{activation}",
        code=lambda w: code("scripts/measure_orthogonality.py", activation=w.activation),
    shell:
        "python scripts/measure_orthogonality.py --data {input.data:q} --dataset {wildcards.dataset}"
        " --architecture {wildcards.architecture} {params.network:q}"
        " --activation {wildcards.activation} --widths {params.widths} --seeds {params.seeds}"
        " --samples {params.samples} --sample-seed {params.sample_seed} --steps {params.steps}"
        " --rate {params.rate} --device {resources.device} --threads {threads}"
        " --checkpoints {params.checkpoints:q} --outputs {output:q} 2> {log:q}"


rule measure_linearity:
    """Measure Hessian, quadratic term and the NTK's change of networks about their initialisation."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
    output:
        expand(
            "results/{{run}}/linearity/{{dataset}}/{{architecture}}/{{activation}}/width-{width}.parquet",
            width=LINEARITY_STUDY["widths"],
        ),
    log:
        "logs/{run}/measure_linearity/{dataset}/{architecture}/{activation}.log",
    benchmark:
        "logs/{run}/measure_linearity/{dataset}/{architecture}/{activation}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=assembly_memory("linearity"),
        runtime=assembly_minutes("linearity"),
        core_seconds=assembly_seconds("linearity"),
        device="cpu",
    params:
        network=assembly_options("linearity"),
        widths=LINEARITY_STUDY["widths"],
        seeds=LINEARITY_STUDY["seeds"],
        samples=LINEARITY_STUDY["samples"],
        sample_seed=LINEARITY_STUDY["sample_seed"],
        steps=LINEARITY_STUDY["steps"],
        rate=LINEARITY_STUDY["rate"],
        radii=LINEARITY_STUDY["radii"],
        expansions=LINEARITY_STUDY["expansions"],
        directions=LINEARITY_STUDY["directions"],
        checkpoints="results/{run}/checkpoints/linearity/{dataset}/{architecture}/{activation}",
        code=lambda w: code("scripts/measure_linearity.py", activation=w.activation),
    shell:
        "python scripts/measure_linearity.py --data {input.data:q} --dataset {wildcards.dataset}"
        " --architecture {wildcards.architecture} {params.network:q}"
        " --activation {wildcards.activation} --widths {params.widths} --seeds {params.seeds}"
        " --samples {params.samples} --sample-seed {params.sample_seed} --steps {params.steps}"
        " --rate {params.rate} --radii {params.radii} --expansions {params.expansions}"
        " --directions {params.directions} --device {resources.device} --threads {threads}"
        " --checkpoints {params.checkpoints:q} --outputs {output:q} 2> {log:q}"


rule aggregate_orthogonality:
    """Collect the angles between neurons' gradients of all networks."""
    input:
        assembly_cells("orthogonality"),
    output:
        "results/{run}/tables/orthogonality.parquet",
    log:
        "logs/{run}/aggregate_orthogonality.log",
    conda:
        "../envs/environment.yaml"
    params:
        study="orthogonality",
        datasets=ORTHOGONALITY_STUDY["datasets"],
        architectures=ORTHOGONALITY_STUDY["architectures"],
        activations=ORTHOGONALITY_STUDY["activations"],
        widths=ORTHOGONALITY_STUDY["widths"],
        code=code("scripts/aggregate_assemblies.py"),
    shell:
        "python scripts/aggregate_assemblies.py --study {params.study}"
        " --cells results/{wildcards.run}/{params.study} --datasets {params.datasets}"
        " --architectures {params.architectures} --activations {params.activations}"
        " --widths {params.widths} --output {output:q} 2> {log:q}"


use rule aggregate_orthogonality as aggregate_linearity with:
    input:
        assembly_cells("linearity"),
    output:
        "results/{run}/tables/linearity.parquet",
    log:
        "logs/{run}/aggregate_linearity.log",
    params:
        study="linearity",
        datasets=LINEARITY_STUDY["datasets"],
        architectures=LINEARITY_STUDY["architectures"],
        activations=LINEARITY_STUDY["activations"],
        widths=LINEARITY_STUDY["widths"],
        code=code("scripts/aggregate_assemblies.py"),


rule fit_width_slopes:
    """Fit the exponents with which orthogonality and linearity come with the width."""
    input:
        orthogonality="results/{run}/tables/orthogonality.parquet",
        linearity="results/{run}/tables/linearity.parquet",
    output:
        "results/{run}/tables/width_slopes.parquet",
    log:
        "logs/{run}/fit_width_slopes.log",
    conda:
        "../envs/environment.yaml"
    params:
        code=code("scripts/fit_width_slopes.py"),
    shell:
        "python scripts/fit_width_slopes.py --orthogonality {input.orthogonality:q}"
        " --linearity {input.linearity:q} --output {output:q} 2> {log:q}"
