# Activations: the grid of many activations at infinite width.
#
# Makes: results/{run}/activation_study/{dataset}.parquet, whose cells are kept as in spectra.smk;
#        results/{run}/tables/activation_study.parquet

activation_study = config["activation_study"]


use rule compute_infinite_spectrum as compute_activation_study with:
    """Condition infinite-width kernels of many activations in one job, as each takes a second."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheets=checked(
            "activation_study", "results/{run}/datasets/{dataset}/all.json"
        ),
    output:
        "results/{run}/activation_study/{dataset}.parquet",
    log:
        "logs/{run}/compute_activation_study/{dataset}.log",
    benchmark:
        "logs/{run}/compute_activation_study/{dataset}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        **resources_of("compute_activation_study", study="activation"),
    params:
        kernel="infinite_ntk",
        settings=options(activation_study, "depths", "seeds", "kernel_size", "blocks"),
        solver=grid("eigenvalues", "full_spectrum_below"),
        activations=rows.activation_options(run, activation_study["activations"]),
        checkpoints=with_prefix("results/{run}/checkpoints/activation_study/{dataset}"),
        code=code("scripts/compute_infinite_spectrum.py", study=activation_study),
