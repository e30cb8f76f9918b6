# Training: one job for each network of an experiment, with all its learning rates and seeds, or,
# with job_per_seed, for each of its seeds; {networks} is /mlp/relu/depth-2 or
# /resnet/relu/depth-32/seed-1. Where all networks on a dataset are trained in a minute or so, they
# are one job, and {networks} is empty.
#
# Needs: results/{run}/datasets/{dataset}/: all training samples and, where there are any, the test
#        samples, with their datasheets.
# Makes: results/{run}/training/{experiment}/{dataset}{networks}.parquet
#        results/{run}/training_kernels/...: the NTK where these trainings begin, of mlp, or where
#        learning rates are multiples of the critical one
#        results/{run}/kernels_along_training/...: kernels along training, for experiments with
#        kernels_along
#        results/{run}/predictions/{experiment}/{dataset}/{model}/{activation}.parquet: the trainings
#        of all depths as that kernel predicts them
#
# A job that was killed goes on from its last checkpoint, in results/{run}/checkpoints/training/.


rule train_network:
    """Train networks: all learning rates and seeds of one, or those of one seed, or several."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        test=ancient(plan.test_samples),
        datasheets=plan.training_datasheets,
    output:
        curves="results/{run}/training/{experiment}/{dataset}{networks}.parquet",
        initial_kernels="results/{run}/training_kernels/{experiment}/{dataset}{networks}.parquet",
    log:
        "logs/{run}/train_network/{experiment}/{dataset}{networks}.log",
    benchmark:
        "logs/{run}/train_network/{experiment}/{dataset}{networks}.tsv"
    wildcard_constraints:
        experiment=plan.experiments_along(measured=False),
    conda:
        "../envs/environment.yaml"
    resources:
        **resources_of("train_network"),
        device="cpu",
    params:
        networks=plan.trained_networks,
        code=plan.training_code,
    shell:
        f"{python} {home}scripts/train_network.py"
        " --data {input.data:q}"
        " --experiment {wildcards.experiment} --dataset {wildcards.dataset}"
        " --device {resources.device} --threads {threads} --output {output.curves:q}"
        " --initial-kernels-output {output.initial_kernels:q} {params.networks:q} 2> {log:q}"


use rule train_network as train_and_measure_network with:
    """Train networks, and measure their kernels and sharpness along training."""
    output:
        curves="results/{run}/training/{experiment}/{dataset}{networks}.parquet",
        initial_kernels="results/{run}/training_kernels/{experiment}/{dataset}{networks}.parquet",
        kernels="results/{run}/kernels_along_training/{experiment}/{dataset}{networks}.parquet",
    log:
        "logs/{run}/train_and_measure_network/{experiment}/{dataset}{networks}.log",
    benchmark:
        "logs/{run}/train_and_measure_network/{experiment}/{dataset}{networks}.tsv"
    wildcard_constraints:
        experiment=plan.experiments_along(measured=True),


rule predict_training:
    """Predict the trainings of all depths from the NTK at initialisation, and compare them."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
        training=plan.predicted_trainings,
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
        settings=plan.prediction_options,
        network=plan.network_options,
        code=plan.code("scripts/predict_training.py"),
    shell:
        f"{python} {home}scripts/predict_training.py"
        " --data {input.data:q} --training {input.training:q}"
        " --experiment {wildcards.experiment} --dataset {wildcards.dataset}"
        " {params.network:q} {params.settings:q} --threads {threads} --output {output:q} 2> {log:q}"
