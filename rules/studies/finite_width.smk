# Finite width: how kappa spreads over many random networks, and its power laws.
#
# Makes: results/{run}/finite_width/{dataset}.parquet; widths that are done are kept in
#        results/{run}/checkpoints, as cells are in spectra.smk.
#        results/{run}/tables/finite_width_laws.parquet

finite_width_study = config["finite_width_study"]


rule measure_finite_width:
    """Measure how kappa spreads over random networks of finite width, on samples of one dataset."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet=checked(
            "finite_width_study", "results/{run}/datasets/{dataset}/all.json"
        ),
    output:
        "results/{run}/finite_width/{dataset}.parquet",
    log:
        "logs/{run}/measure_finite_width/{dataset}.log",
    benchmark:
        "logs/{run}/measure_finite_width/{dataset}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("measure_finite_width", study="finite_width"),
    params:
        activations=rows.activation_options(run, finite_width_study["activations"]),
        networks=options(finite_width_study, "depths", "networks", "seeds", "widths"),
        samples=options(finite_width_study, "samples", "sample_seed"),
        checkpoints=with_prefix("results/{run}/checkpoints/finite_width/{dataset}"),
        code=code("scripts/measure_finite_width.py", study=finite_width_study),
    shell:
        f"{python} {home}scripts/measure_finite_width.py"
        " --data {input.data:q} --dataset {wildcards.dataset} {params.activations:q}"
        " {params.networks:q} {params.samples:q} --threads {threads}"
        " --checkpoints {params.checkpoints:q} --code {params.code} --output {output:q} 2> {log:q}"


rule fit_finite_width:
    """Fit power laws in depth over width to the spread of kappa over networks."""
    input:
        "results/{run}/tables/finite_width.parquet",
    output:
        "results/{run}/tables/finite_width_laws.parquet",
    log:
        "logs/{run}/fit_finite_width.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("scripts/fit_finite_width.py"),
    shell:
        f"{python} {home}scripts/fit_finite_width.py"
        " --rows {input:q} --output {output:q} 2> {log:q}"
