# Phase: the map of where depth helps, on random samples on the sphere and on datasets.
#
# Makes: results/{run}/phase/{part}/{activation}.parquet  random samples: the map, or larger ones
#        results/{run}/phase/data/{dataset}.parquet       samples of a dataset there
#        results/{run}/tables/phase_laws.parquet          what theory says of the map

phase_study = config["phase_study"]
# The parts of random samples: the map, and larger samples at fewer places, if there are any.
parts = {"map": phase_study, "large": phase_study | (phase_study["large"] or {})}
places = ("samples", "samples_per_dimension", "depths", "seeds")
ratios = phase_study["samples_per_dimension"]


rule measure_phase:
    """Measure what depth does to random samples on the sphere, through one activation."""
    input:
        checked("phase_study"),
    output:
        "results/{run}/phase/{part}/{activation}.parquet",
    log:
        "logs/{run}/measure_phase/{part}/{activation}.log",
    benchmark:
        "logs/{run}/measure_phase/{part}/{activation}.tsv"
    wildcard_constraints:
        part="map|large",
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("measure_phase", study="phase"),
    params:
        activation=activation,
        shapes=lambda w: options(parts[w.part]["shapes"], *parts[w.part]["shapes"]),
        places=lambda w: options(parts[w.part], *places),
        code=code("scripts/measure_phase.py"),
    shell:
        f"{python} {home}scripts/measure_phase.py"
        " {params.activation:q} {params.shapes:q} {params.places:q} --threads {threads}"
        " --output {output:q} 2> {log:q}"


rule measure_phase_of_data:
    """Place samples of a dataset on that map, and measure what depth does to them."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet=checked("phase_study", "results/{run}/datasets/{dataset}/all.json"),
    output:
        "results/{run}/phase/data/{dataset}.parquet",
    log:
        "logs/{run}/measure_phase_of_data/{dataset}.log",
    benchmark:
        "logs/{run}/measure_phase_of_data/{dataset}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("measure_phase_of_data", study="phase"),
    params:
        activations=rows.activation_options(run, phase_study["activations"]),
        settings=options(phase_study, "depths", "seeds"),
        samples=max(phase_study["samples"]),
        code=code("scripts/measure_phase_of_data.py", study=phase_study),
    shell:
        f"{python} {home}scripts/measure_phase_of_data.py"
        " --data {input.data:q} --dataset {wildcards.dataset} {params.activations:q}"
        " {params.settings:q} --samples {params.samples} --threads {threads} --output {output:q}"
        " 2> {log:q}"


rule evaluate_laws:
    """Evaluate the laws of random samples on a grid of the map."""
    input:
        checked("phase_study"),
    output:
        "results/{run}/tables/phase_laws.parquet",
    log:
        "logs/{run}/evaluate_laws.log",
    benchmark:
        "logs/{run}/evaluate_laws.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("evaluate_laws", study="phase"),
    params:
        activations=rows.activation_options(run, phase_study["activations"]),
        depths=phase_study["depths"],
        samples=max(phase_study["samples"]),
        ratios=[min(ratios), max(ratios)],
        closest=1 - max(0.9, *phase_study["shapes"]["equicorrelated"]),
        points=phase_study["laws"],
        code=code("scripts/evaluate_laws.py", study=phase_study),
    shell:
        f"{python} {home}scripts/evaluate_laws.py"
        " {params.activations:q} --depths {params.depths} --samples {params.samples}"
        " --samples-per-dimension {params.ratios} --closest {params.closest}"
        " --points {params.points} --output {output:q} 2> {log:q}"
