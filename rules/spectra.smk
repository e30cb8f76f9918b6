# Cells: one file for each grid point and seed.
#
# Needs: results/{run}/datasets/{dataset}/: the draws of its samples and their datasheets.
# Makes: results/{run}/spectra/{kernel}/{dataset}/{activation}/depth-{depth}/seed-{seed}.parquet
#        results/{run}/angles/...      the same; seed-none at infinite width, of a whole dataset
#
# Starting a process takes longer than a small cell. So a job computes a row, all depths and seeds, by
# rules like compute_spectrum_rows, if that takes minutes; else all seeds of one depth
# (rules/batches.py). A cell is written as soon as it is done, into checkpoints that survive
# the job, where a later one finds it again if nothing that it depends on has changed
# (scripts/cell_checkpoints.py). Finite and infinite width are rules of their own: they have other
# parameters, and an edit of one kernel's code must not rerun the other.

for batch in CELL_JOBS["compute_spectrum"]:

    rule:
        """Condition a kernel of a network of finite width on random blocks of one dataset."""
        name:
            f"compute_spectrum{batch.suffix}"
        input:
            data=prepared_data,
            datasheets=prepared_datasheets,
        output:
            expand(
                "results/{{run}}/spectra/{{kernel}}/{{dataset}}/{{activation}}/depth-{depth}/seed-{seed}.parquet",
                seed=batch.seeds,
                depth=batch.depths,
            ),
        log:
            f"logs/{{run}}/compute_spectrum/{{kernel}}/{batch.place}.log",
        benchmark:
            f"logs/{{run}}/compute_spectrum/{{kernel}}/{batch.place}.tsv"
        wildcard_constraints:
            kernel=batches.one_of(batch.kernels),
            dataset=batches.one_of(batch.datasets),
            activation=batches.one_of(batch.activations),
        conda:
            "../envs/environment.yaml"
        resources:
            mem_mb=cell_memory("compute_spectrum", batch),
            runtime=cell_minutes("compute_spectrum", batch),
            core_seconds=cell_seconds("compute_spectrum", batch),
            device="cpu",
        params:
            depths=job_depths,
            seeds=job_seeds,
            width=config["width"],
            dtype=config["dtype"],
            kernel_size=lambda w: setting("kernel_size", w.dataset),
            blocks=lambda w: setting("blocks", w.dataset),
            eigenvalues=config["eigenvalues"],
            full_spectrum_below=config["full_spectrum_below"],
            plugins=activation_options,
            checkpoints="results/{run}/checkpoints/spectra/{kernel}/{dataset}/{activation}",
            code=lambda w: code("scripts/compute_spectrum.py", activation=w.activation),
        shell:
            "python scripts/compute_spectrum.py --kernel {wildcards.kernel}"
            " --data {input.data:q} --dataset {wildcards.dataset}"
            " --activation {wildcards.activation} {params.plugins:q} --depths {params.depths}"
            " --seeds {params.seeds} --width {params.width} --dtype {params.dtype}"
            " --kernel-size {params.kernel_size} --blocks {params.blocks}"
            " --eigenvalues {params.eigenvalues}"
            " --full-spectrum-below {params.full_spectrum_below}"
            " --device {resources.device} --threads {threads} --checkpoints {params.checkpoints:q} --outputs {output:q} 2> {log:q}"


for batch in CELL_JOBS["compute_infinite_spectrum"]:

    rule:
        """Condition a kernel of infinite width on the same blocks."""
        name:
            f"compute_infinite_spectrum{batch.suffix}"
        input:
            data=prepared_data,
            datasheets=prepared_datasheets,
        output:
            expand(
                "results/{{run}}/spectra/{{kernel}}/{{dataset}}/{{activation}}/depth-{depth}/seed-{seed}.parquet",
                seed=batch.seeds,
                depth=batch.depths,
            ),
        log:
            f"logs/{{run}}/compute_infinite_spectrum/{{kernel}}/{batch.place}.log",
        benchmark:
            f"logs/{{run}}/compute_infinite_spectrum/{{kernel}}/{batch.place}.tsv"
        wildcard_constraints:
            kernel=batches.one_of(batch.kernels),
            dataset=batches.one_of(batch.datasets),
            activation=batches.one_of(batch.activations),
        conda:
            "../envs/environment.yaml"
        resources:
            mem_mb=cell_memory("compute_infinite_spectrum", batch),
            runtime=cell_minutes("compute_infinite_spectrum", batch),
            core_seconds=cell_seconds("compute_infinite_spectrum", batch),
        params:
            depths=job_depths,
            seeds=job_seeds,
            kernel_size=lambda w: setting("kernel_size", w.dataset),
            blocks=lambda w: setting("blocks", w.dataset),
            eigenvalues=config["eigenvalues"],
            full_spectrum_below=config["full_spectrum_below"],
            plugins=activation_options,
            checkpoints="results/{run}/checkpoints/spectra/{kernel}/{dataset}/{activation}",
            code=lambda w: code(
                "scripts/compute_infinite_spectrum.py", activation=w.activation
            ),
        shell:
            "python scripts/compute_infinite_spectrum.py --kernel {wildcards.kernel}"
            " --data {input.data:q} --dataset {wildcards.dataset}"
            " --activation {wildcards.activation} {params.plugins:q} --depths {params.depths}"
            " --seeds {params.seeds} --kernel-size {params.kernel_size} --blocks {params.blocks}"
            " --eigenvalues {params.eigenvalues}"
            " --full-spectrum-below {params.full_spectrum_below}"
            " --threads {threads} --checkpoints {params.checkpoints:q} --outputs {output:q} 2> {log:q}"


for batch in CELL_JOBS["compute_min_angle"]:

    rule:
        """Find the smallest gradient angle of a finite network over all pairs of a dataset."""
        name:
            f"compute_min_angle{batch.suffix}"
        input:
            data=prepared_data,
            datasheets=prepared_datasheets,
        output:
            expand(
                "results/{{run}}/angles/empirical_ntk/{{dataset}}/{{activation}}/depth-{depth}/seed-{seed}.parquet",
                seed=batch.seeds,
                depth=batch.depths,
            ),
        log:
            f"logs/{{run}}/compute_min_angle/{batch.place}.log",
        benchmark:
            f"logs/{{run}}/compute_min_angle/{batch.place}.tsv"
        wildcard_constraints:
            dataset=batches.one_of(batch.datasets),
            activation=batches.one_of(batch.activations),
        conda:
            "../envs/environment.yaml"
        resources:
            mem_mb=cell_memory("compute_min_angle", batch),
            runtime=cell_minutes("compute_min_angle", batch),
            core_seconds=cell_seconds("compute_min_angle", batch),
            device="cpu",
        params:
            depths=job_depths,
            seeds=job_seeds,
            width=config["width"],
            exclude="--exclude-duplicates" if config["exclude_duplicates"] else "",
            plugins=activation_options,
            checkpoints="results/{run}/checkpoints/angles/empirical_ntk/{dataset}/{activation}",
            code=lambda w: code("scripts/compute_min_angle.py", activation=w.activation),
        shell:
            "python scripts/compute_min_angle.py --data {input.data:q} --dataset {wildcards.dataset}"
            " --activation {wildcards.activation} {params.plugins:q} --depths {params.depths}"
            " --seeds {params.seeds} --width {params.width} {params.exclude}"
            " --device {resources.device} --threads {threads} --checkpoints {params.checkpoints:q} --outputs {output:q} 2> {log:q}"


for batch in CELL_JOBS["compute_infinite_min_angle"]:

    rule:
        """Find the smallest gradient angle at infinite width, where a seed only draws the samples."""
        name:
            f"compute_infinite_min_angle{batch.suffix}"
        input:
            data=prepared_data,
            datasheets=prepared_datasheets,
        output:
            expand(
                "results/{{run}}/angles/infinite_ntk/{{dataset}}/{{activation}}/depth-{depth}/seed-{seed}.parquet",
                seed=batch.seeds,
                depth=batch.depths,
            ),
        log:
            f"logs/{{run}}/compute_infinite_min_angle/{batch.place}.log",
        benchmark:
            f"logs/{{run}}/compute_infinite_min_angle/{batch.place}.tsv"
        wildcard_constraints:
            dataset=batches.one_of(batch.datasets),
            activation=batches.one_of(batch.activations),
        conda:
            "../envs/environment.yaml"
        resources:
            mem_mb=cell_memory("compute_infinite_min_angle", batch),
            runtime=cell_minutes("compute_infinite_min_angle", batch),
            core_seconds=cell_seconds("compute_infinite_min_angle", batch),
        params:
            depths=job_depths,
            seeds=job_seeds,
            exclude="--exclude-duplicates" if config["exclude_duplicates"] else "",
            plugins=activation_options,
            checkpoints="results/{run}/checkpoints/angles/infinite_ntk/{dataset}/{activation}",
            code=lambda w: code(
                "scripts/compute_infinite_min_angle.py", activation=w.activation
            ),
        shell:
            "python scripts/compute_infinite_min_angle.py --data {input.data:q}"
            " --dataset {wildcards.dataset} --activation {wildcards.activation} {params.plugins:q}"
            " --depths {params.depths} --seeds {params.seeds} {params.exclude}"
            " --threads {threads} --checkpoints {params.checkpoints:q} --outputs {output:q} 2> {log:q}"
