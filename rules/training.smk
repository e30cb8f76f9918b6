# Training: one job for each network of an experiment, with all its learning rates and seeds.
#
# Needs: results/{run}/datasets/{dataset}/: all training samples and, where there are any, the test
#        samples, with their datasheets.
# Makes: results/{run}/training/{experiment}/{dataset}/{model}/{activation}/depth-{depth}.parquet
#        results/{run}/training_kernels/...  the same: the NTK where the training begins
#
# A job that was killed goes on from its last checkpoint, in results/{run}/checkpoints/training/.
# The kernel is a job of its own, so that an edit of its code trains nothing again.


rule compute_training_kernel:
    """Condition the NTK at initialisation on training samples: the critical learning rate."""
    input:
        data=ancient("results/{run}/datasets/{dataset}/all.npz"),
        datasheet="results/{run}/datasets/{dataset}/all.json",
    output:
        "results/{run}/training_kernels/{experiment}/{dataset}/{model}/{activation}/depth-{depth}.parquet",
    log:
        "logs/{run}/compute_training_kernel/{experiment}/{dataset}/{model}/{activation}/depth-{depth}.log",
    benchmark:
        "logs/{run}/compute_training_kernel/{experiment}/{dataset}/{model}/{activation}/depth-{depth}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=training_memory("compute_training_kernel"),
        runtime=training_minutes("compute_training_kernel"),
        core_seconds=training_seconds("compute_training_kernel"),
    params:
        width=experiment_value("width"),
        seeds=experiment_value("seeds"),
        samples=experiment_value("samples"),
        input_scale=experiment_value("input_scale"),
        plugins=activation_options,
        code=lambda w: code(
            "scripts/compute_training_kernel.py", activation=w.activation
        ),
    shell:
        "python scripts/compute_training_kernel.py --data {input.data:q}"
        " --experiment {wildcards.experiment} --dataset {wildcards.dataset}"
        " --model {wildcards.model} --activation {wildcards.activation} {params.plugins:q}"
        " --depth {wildcards.depth} --width {params.width} --seeds {params.seeds}"
        " --samples {params.samples} --input-scale {params.input_scale} --threads {threads} --output {output:q} 2> {log:q}"


rule train_network:
    """Train the networks of one architecture, all learning rates and seeds as one ensemble."""
    input:
        unpack(trained_on),
        kernel=training_kernel,
    output:
        "results/{run}/training/{experiment}/{dataset}/{model}/{activation}/depth-{depth}.parquet",
    log:
        "logs/{run}/train_network/{experiment}/{dataset}/{model}/{activation}/depth-{depth}.log",
    benchmark:
        "logs/{run}/train_network/{experiment}/{dataset}/{model}/{activation}/depth-{depth}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=training_memory("train_network"),
        runtime=training_minutes("train_network"),
        core_seconds=training_seconds("train_network"),
        device="cpu",
    params:
        width=experiment_value("width"),
        seeds=experiment_value("seeds"),
        samples=experiment_value("samples"),
        input_scale=experiment_value("input_scale"),
        loss=experiment_value("loss"),
        outputs=experiment_value("outputs"),
        batch_size=experiment_value("batch_size"),
        epochs=experiment_value("epochs"),
        evaluate_every=experiment_value("evaluate_every"),
        rates=rate_options,
        dtype=experiment_value("dtype"),
        tf32=lambda w: "--tf32" if EXPERIMENTS[w.experiment]["tf32"] else "",
        test=test_option,
        image=image_option,
        descent=descent_options,
        plugins=activation_options,
        checkpoints="results/{run}/checkpoints/training/{experiment}/{dataset}/{model}/{activation}/depth-{depth}",
        code=lambda w: code("scripts/train_network.py", activation=w.activation),
    shell:
        "python scripts/train_network.py --data {input.data:q} {params.test:q}"
        " --experiment {wildcards.experiment} --dataset {wildcards.dataset}"
        " --model {wildcards.model} --activation {wildcards.activation} {params.plugins:q}"
        " --depth {wildcards.depth} --width {params.width} --seeds {params.seeds}"
        " --samples {params.samples} --input-scale {params.input_scale} --loss {params.loss} --outputs {params.outputs}"
        " --batch-size {params.batch_size} --epochs {params.epochs}"
        " --evaluate-every {params.evaluate_every} {params.rates:q} --dtype {params.dtype}"
        " {params.image} {params.descent} {params.tf32} --device {resources.device} --threads {threads} --checkpoints {params.checkpoints:q}"
        " --output {output:q} 2> {log:q}"
