# Studies with sizes of their own: bounds, other architectures, networks of growing width,
# activations, precision.
#
# Needs: results/{run}/datasets/{dataset}/all.npz, or no data.
# Makes: results/{run}/bounds/{dataset}.parquet                 agarwal2021deep's bounds along depth
#        results/{run}/phase/{part}/{activation}.parquet         random samples on the sphere
#        results/{run}/phase/data/{dataset}.parquet              samples of a dataset there
#        results/{run}/tables/phase_laws.parquet                 what theory says of the map
#        results/{run}/finite_width/{dataset}.parquet            many random networks
#        results/{run}/repairs/{dataset}.parquet                 preconditioned samples and kernels
#        results/{run}/architectures/{dataset}.parquet           kernels of networks of many kinds
#        results/{run}/orthogonality/{dataset}/{architecture}.parquet
#        results/{run}/linearity/...                            the same, after liu2022transition
#        results/{run}/tables/activations.parquet, precision.parquet
#
# Networks and widths that are done are kept in results/{run}/checkpoints, as cells are in spectra.smk.


rule compute_bounds:
    """Compare the kernels of one dataset with their bounds, along depth."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
    output:
        "results/{run}/bounds/{dataset}.parquet",
    log:
        "logs/{run}/compute_bounds/{dataset}.log",
    benchmark:
        "logs/{run}/compute_bounds/{dataset}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("compute_bounds", study="bounds"),
    params:
        activations=plan.study_activations("bounds_study"),
        settings=plan.study("bounds_study", "depths", "samples", "seed"),
        code=plan.code("scripts/compute_bounds.py", study="bounds_study"),
    shell:
        f"{python} {home}scripts/compute_bounds.py"
        " --data {input.data:q} --dataset {wildcards.dataset}"
        " {params.activations:q} {params.settings:q} --threads {threads}"
        " --output {output:q} 2> {log:q}"


rule measure_phase:
    """Measure what depth does to random samples on the sphere, through one activation."""
    output:
        "results/{run}/phase/{part}/{activation}.parquet",
    log:
        "logs/{run}/measure_phase/{part}/{activation}.log",
    benchmark:
        "logs/{run}/measure_phase/{part}/{activation}.tsv"
    wildcard_constraints:
        part="map|large",
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("measure_phase", study="phase"),
    params:
        activation=plan.activation,
        places=plan.places,
        code=plan.code("scripts/measure_phase.py"),
    shell:
        f"{python} {home}scripts/measure_phase.py"
        " {params.activation:q} {params.places:q}"
        " --threads {threads} --output {output:q} 2> {log:q}"


rule measure_phase_of_data:
    """Place samples of a dataset on that map, and measure what depth does to them."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
    output:
        "results/{run}/phase/data/{dataset}.parquet",
    log:
        "logs/{run}/measure_phase_of_data/{dataset}.log",
    benchmark:
        "logs/{run}/measure_phase_of_data/{dataset}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("measure_phase_of_data", study="phase"),
    params:
        activations=plan.study_activations("phase_study"),
        places=plan.data_places,
        code=plan.code("scripts/measure_phase_of_data.py", study="phase_study"),
    shell:
        f"{python} {home}scripts/measure_phase_of_data.py"
        " --data {input.data:q}"
        " --dataset {wildcards.dataset} {params.activations:q} {params.places:q}"
        " --threads {threads} --output {output:q} 2> {log:q}"


rule evaluate_laws:
    """Evaluate the laws of random samples on a grid of the map."""
    output:
        "results/{run}/tables/phase_laws.parquet",
    log:
        "logs/{run}/evaluate_laws.log",
    benchmark:
        "logs/{run}/evaluate_laws.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("evaluate_laws", study="phase"),
    params:
        activations=plan.study_activations("phase_study"),
        grid=plan.law_grid,
        code=plan.code("scripts/evaluate_laws.py", study="phase_study"),
    shell:
        f"{python} {home}scripts/evaluate_laws.py"
        " {params.activations:q} {params.grid:q}"
        " --output {output:q} 2> {log:q}"


rule measure_finite_width:
    """Measure how kappa spreads over random networks of finite width, on samples of one dataset."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
    output:
        "results/{run}/finite_width/{dataset}.parquet",
    log:
        "logs/{run}/measure_finite_width/{dataset}.log",
    benchmark:
        "logs/{run}/measure_finite_width/{dataset}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("measure_finite_width", study="finite_width"),
    params:
        activations=plan.study_activations("finite_width_study"),
        settings=plan.study("finite_width_study"),
        checkpoints=plan.placed("results/{run}/checkpoints/finite_width/{dataset}"),
        code=plan.code("scripts/measure_finite_width.py", study="finite_width_study"),
    shell:
        f"{python} {home}scripts/measure_finite_width.py"
        " --data {input.data:q}"
        " --dataset {wildcards.dataset} {params.activations:q} {params.settings:q}"
        " --threads {threads} --checkpoints {params.checkpoints:q} --code {params.code}"
        " --output {output:q} 2> {log:q}"


rule measure_repairs:
    """Measure what repairs of samples and kernels give in kappa and in predicted steps."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
    output:
        "results/{run}/repairs/{dataset}.parquet",
    log:
        "logs/{run}/measure_repairs/{dataset}.log",
    benchmark:
        "logs/{run}/measure_repairs/{dataset}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("measure_repairs", study="repairs"),
    params:
        activations=plan.study_activations("repairs_study"),
        settings=plan.study("repairs_study"),
        code=plan.code("scripts/measure_repairs.py", study="repairs_study"),
    shell:
        f"{python} {home}scripts/measure_repairs.py"
        " --data {input.data:q} --dataset {wildcards.dataset}"
        " {params.activations:q} {params.settings:q} --threads {threads}"
        " --output {output:q} 2> {log:q}"


rule measure_architectures:
    """Measure kernels of networks of many architectures at initialisation, along depth."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
    output:
        "results/{run}/architectures/{dataset}.parquet",
    log:
        "logs/{run}/measure_architectures/{dataset}.log",
    benchmark:
        "logs/{run}/measure_architectures/{dataset}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("measure_architectures", study="architectures"),
    params:
        activations=plan.study_activations("architectures_study"),
        networks=plan.architectures,
        settings=plan.study(
            "architectures_study", "infinite_width", "samples", "sample_seed", "seeds"
        ),
        checkpoints=plan.placed("results/{run}/checkpoints/architectures/{dataset}"),
        code=plan.code("scripts/measure_architectures.py", study="architectures_study"),
    shell:
        f"{python} {home}scripts/measure_architectures.py"
        " --data {input.data:q}"
        " --dataset {wildcards.dataset} {params.activations:q} {params.networks:q}"
        " {params.settings:q} --threads {threads} --checkpoints {params.checkpoints:q}"
        " --code {params.code} --output {output:q} 2> {log:q}"


rule measure_orthogonality:
    """Measure the angles between neurons' gradients, before and after training."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
    output:
        "results/{run}/orthogonality/{dataset}/{architecture}.parquet",
    log:
        "logs/{run}/measure_orthogonality/{dataset}/{architecture}.log",
    benchmark:
        "logs/{run}/measure_orthogonality/{dataset}/{architecture}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("measure_orthogonality", study="orthogonality"),
        device="cpu",
    params:
        program="scripts/measure_orthogonality.py",
        network=plan.network("orthogonality_study"),
        activations=plan.study_activations("orthogonality_study"),
        settings=plan.study("orthogonality_study"),
        checkpoints=plan.placed(
            "results/{run}/checkpoints/orthogonality/{dataset}/{architecture}"
        ),
        code=plan.code("scripts/measure_orthogonality.py", study="orthogonality_study"),
    shell:
        f"{python} {home}"
        "{params.program} --data {input.data:q}"
        " --dataset {wildcards.dataset} --architecture {wildcards.architecture}"
        " {params.activations:q} {params.network:q} {params.settings:q}"
        " --device {resources.device} --threads {threads} --checkpoints {params.checkpoints:q}"
        " --code {params.code} --output {output:q} 2> {log:q}"


use rule measure_orthogonality as measure_linearity with:
    """Measure how far networks are from linear: Hessian, quadratic term, change of the NTK."""
    output:
        "results/{run}/linearity/{dataset}/{architecture}.parquet",
    log:
        "logs/{run}/measure_linearity/{dataset}/{architecture}.log",
    benchmark:
        "logs/{run}/measure_linearity/{dataset}/{architecture}.tsv"
    resources:
        **resources_of("measure_linearity", study="linearity"),
        device="cpu",
    params:
        program="scripts/measure_linearity.py",
        network=plan.network("linearity_study"),
        activations=plan.study_activations("linearity_study"),
        settings=plan.study("linearity_study"),
        checkpoints=plan.placed(
            "results/{run}/checkpoints/linearity/{dataset}/{architecture}"
        ),
        code=plan.code("scripts/measure_linearity.py", study="linearity_study"),


rule measure_activations:
    """Measure Hermite coefficients, non-linearity and fixed points of activations."""
    output:
        "results/{run}/tables/activations.parquet",
    log:
        "logs/{run}/measure_activations.log",
    conda:
        "../envs/environment.yaml"
    params:
        activations=plan.study_activations("activation_constants"),
        code=plan.code("scripts/measure_activations.py", study="activation_constants"),
    shell:
        f"{python} {home}scripts/measure_activations.py"
        " {params.activations:q} --output {output:q} 2> {log:q}"


rule measure_precision:
    """Compare kappa from float32 and float64 with references in many digits."""
    output:
        "results/{run}/tables/precision.parquet",
    log:
        "logs/{run}/measure_precision.log",
    benchmark:
        "logs/{run}/measure_precision.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("measure_precision", study="precision"),
    params:
        settings=plan.study("precision_study"),
        code=plan.code("scripts/measure_precision.py"),
    shell:
        f"{python} {home}scripts/measure_precision.py"
        " {params.settings:q} --threads {threads}"
        " --output {output:q} 2> {log:q}"
