# Training: one job for each network of an experiment, with all its learning rates and seeds, or,
# with job_per_seed, for each of its seeds: {per_seed} is then /seed-1, say, and empty otherwise.
#
# Needs: results/{run}/datasets/{dataset}/: training samples and, where there are any, test samples.
# Makes: results/{run}/training/{experiment}/{dataset}/{model}/{activation}/depth-{depth}.parquet;
#        training_kernels/..., the NTK where these trainings begin, of mlp, or where rates are
#        multiples of the critical one; kernels_along_training/... for experiments that ask for it;
#        predictions/..., the trainings of all depths as the NTK at initialisation predicts them
#
# A job that was killed goes on from its last checkpoint, in results/{run}/checkpoints/training/.

network = "{experiment}/{dataset}/{model}/{activation}/depth-{depth}{per_seed}"


rule train_network:
    """Train a network: all its learning rates and seeds, or those of one seed."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        test=ancient(lambda w: trainings.samples_for_tests(run, w.dataset)),
        datasheets=lambda w: trainings.datasheets(run, w.dataset),
    output:
        curves=f"results/{{run}}/training/{network}.parquet",
        initial_kernels=f"results/{{run}}/training_kernels/{network}.parquet",
    log:
        f"logs/{{run}}/train_network/{network}.log",
    benchmark:
        f"logs/{{run}}/train_network/{network}.tsv"
    wildcard_constraints:
        experiment=trainings.experiments(run, along=False),
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("train_network"),
        device="cpu",
    params:
        test=lambda w, input: [f"--test={path}" for path in input.test],
        kernels=lambda w, output: (
            ["--kernels-output", *output[2:]] if output[2:] else []
        ),
        network=lambda w: [*rows.network_options(run, w.model), *activation(w)],
        settings=lambda w: trainings.setting_options(run, w),
        checkpoints=with_prefix(f"results/{{run}}/checkpoints/training/{network}"),
        code=code("scripts/train_network.py"),
    shell:
        f"{python} {home}scripts/train_network.py"
        " --data {input.data:q} {params.test:q} --experiment {wildcards.experiment}"
        " --dataset {wildcards.dataset} {params.network:q} --depth {wildcards.depth}"
        " --settings {params.settings:q} --device {resources.device} --threads {threads}"
        " --checkpoints {params.checkpoints:q} --code {params.code} --output {output.curves:q}"
        " --initial-kernels-output {output.initial_kernels:q} {params.kernels:q} 2> {log:q}"


use rule train_network as train_and_measure_network with:
    """Train a network, and measure its kernels and sharpness along training."""
    output:
        curves=f"results/{{run}}/training/{network}.parquet",
        initial_kernels=f"results/{{run}}/training_kernels/{network}.parquet",
        kernels=f"results/{{run}}/kernels_along_training/{network}.parquet",
    log:
        f"logs/{{run}}/train_and_measure_network/{network}.log",
    benchmark:
        f"logs/{{run}}/train_and_measure_network/{network}.tsv"
    wildcard_constraints:
        experiment=trainings.experiments(run, along=True),


rule predict_training:
    """Predict the trainings of all depths from the NTK at initialisation, and compare them."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
        training=lambda w: trainings.predicted(run, w),
    output:
        "results/{run}/predictions/{experiment}/{dataset}/{model}/{activation}.parquet",
    log:
        "logs/{run}/predict_training/{experiment}/{dataset}/{model}/{activation}.log",
    benchmark:
        "logs/{run}/predict_training/{experiment}/{dataset}/{model}/{activation}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("predict_training"),
    params:
        settings=lambda w: trainings.setting_options(run, w, kernels_along=None),
        network=lambda w: [*rows.network_options(run, w.model), *activation(w)],
        code=code("scripts/predict_training.py"),
    shell:
        f"{python} {home}scripts/predict_training.py"
        " --data {input.data:q} --training {input.training:q} --experiment {wildcards.experiment}"
        " --dataset {wildcards.dataset} {params.network:q} --settings {params.settings:q}"
        " --threads {threads} --output {output:q} 2> {log:q}"
