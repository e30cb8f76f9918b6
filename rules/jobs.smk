# Jobs: which of them compute the cells, what they ask for, and what all of them would take.
#
# Needs: rules/common.smk. Makes: CELL_JOBS and functions for the rules' resources. On one machine
# these say nothing but what an estimate is made of; a cluster or a cloud allots by them.

SIZES = work.Sizes(
    config,
    shape,
    setting,
    experiment_setting,
    lambda dataset: datasets.known_image(CATALOGUE[dataset]),
)


def batches_of(kind, kernels, seeds, grids):
    """Return the jobs of a rule, see rules/batches.py; ``kind`` is the program that they call."""

    def seconds(dataset, activation, depths, seeds):
        if None in shape(dataset):
            return None
        row = SIZES.cells(kind, dataset, activation, depths, seeds)
        return costs.Model().seconds(kind, row)

    return batches.batches(grids, kernels=kernels, seeds=seeds, seconds=seconds)


CELL_JOBS = {
    "compute_spectrum": batches_of(
        "compute_spectrum", cells.FINITE, all_seeds, [MAIN_GRID]
    ),
    "compute_infinite_spectrum": batches_of(
        "compute_infinite_spectrum",
        cells.INFINITE,
        all_seeds,
        [MAIN_GRID, STUDY_GRID],
    ),
    "compute_min_angle": batches_of(
        "compute_min_angle", [cells.EMPIRICAL], all_seeds, [MAIN_GRID]
    ),
    "compute_infinite_min_angle": batches_of(
        "compute_infinite_min_angle", ["infinite_ntk"], drawing_seeds, [MAIN_GRID]
    ),
}


def gives_gpu(rule):
    """Return whether the profile, or --set-resources, gives GPUs to the jobs of a rule."""
    given = workflow.resource_settings.overwrite_resources.get(rule, {})
    return "gpu" in given and str(given["gpu"].raw) != "0"


def cell_work(kind, batch, wildcards):
    """Return the work of a job of cells."""
    depths = [int(wildcards.depth)] if batch.depths == batches.POINT else batch.depths
    return SIZES.cells(
        kind,
        wildcards.dataset,
        wildcards.activation,
        depths,
        len(batch.seeds),
        kernel=getattr(wildcards, "kernel", cells.EMPIRICAL),
    )


def cell_memory(kind, batch):
    """Return a function that gives the memory of a job of cells, in MB."""
    return lambda wildcards, attempt: work.memory_mb(
        cell_work(kind, batch, wildcards), attempt
    )


def cell_minutes(kind, batch):
    """Return a function that gives the time limit of a job of cells, in minutes."""
    gpu = gives_gpu(f"{kind}{batch.suffix}")
    return lambda wildcards, attempt: work.minutes(
        kind, cell_work(kind, batch, wildcards), attempt, gpu=gpu
    )


def training_work(kind, wildcards):
    """Return the work of train_network or compute_training_kernel for one network."""
    count = SIZES.training if kind == "train_network" else SIZES.training_kernel
    w = wildcards
    return count(w.experiment, w.dataset, w.model, w.activation, int(w.depth))


def training_memory(kind):
    """Return a function that gives the memory of such a job, in MB."""
    return lambda wildcards, attempt: work.memory_mb(
        training_work(kind, wildcards), attempt
    )


def training_minutes(kind):
    """Return a function that gives the time limit of such a job, in minutes."""
    gpu = gives_gpu(kind)
    return lambda wildcards, attempt: work.minutes(
        kind, training_work(kind, wildcards), attempt, gpu=gpu
    )


def assembly_memory(study):
    """Return a function that gives the memory of a study's job, in MB."""
    return lambda wildcards, attempt: work.memory_mb(
        SIZES.assembly(study, wildcards.dataset, wildcards.architecture), attempt
    )


def assembly_minutes(study):
    """Return a function that gives the time limit of a study's job, in minutes."""
    kind = f"measure_{study}"
    gpu = gives_gpu(kind)
    return lambda wildcards, attempt: work.minutes(
        kind,
        SIZES.assembly(study, wildcards.dataset, wildcards.architecture),
        attempt,
        gpu=gpu,
    )


def cell_jobs():
    """Yield rule, work and outputs of the jobs that compute cells."""
    folders = {"spectrum": "spectra", "min_angle": "angles"}
    for kind, found in CELL_JOBS.items():
        folder = next(name for word, name in folders.items() if kind.endswith(word))
        for batch in found:
            gpu = gives_gpu(f"{kind}{batch.suffix}")
            for kernel, dataset, activation, depths in batch.jobs():
                outputs = expand(
                    f"results/{RUN}/{folder}/{kernel}/{dataset}/{activation}/depth-{{depth}}/seed-{{seed}}.parquet",
                    depth=depths,
                    seed=batch.seeds,
                )
                yield kind, gpu, SIZES.cells(
                    kind, dataset, activation, depths, len(batch.seeds), kernel=kernel
                ), outputs


def training_jobs():
    """Yield rule, work and output of the trainings and of their kernels."""
    kinds = {
        "train_network": ("training", SIZES.training, cells.training_cells),
        "compute_training_kernel": (
            "training_kernels",
            SIZES.training_kernel,
            cells.training_kernel_cells,
        ),
    }
    for kind, (folder, count, cells_of) in kinds.items():
        for cell in cells_of(TRAINING_GRIDS):
            experiment, dataset, model, activation, file = cell.split("/")
            depth = int(file.removeprefix("depth-").removesuffix(".parquet"))
            amount = count(experiment, dataset, model, activation, depth)
            yield kind, gives_gpu(kind), amount, [f"results/{RUN}/{folder}/{cell}"]


def other_jobs():
    """Yield rule, work and output of datasets and figures; tables and downloads are light."""
    for dataset in configuration.used_datasets(config):
        n, d = SIZES.samples(dataset)
        prepared = [f"results/{RUN}/datasets/{dataset}/all.npz"]
        yield "prepare_dataset", False, costs.preparation(n=n, d=d), prepared
    for cell in cells.datasheet_cells([MAIN_GRID, STUDY_GRID]):
        n, d = SIZES.samples(cell.split("/")[0])
        sheet = [f"results/{RUN}/datasheets/{cell}"]
        yield "describe_dataset", False, costs.description(n=n, d=d), sheet
    for dataset in config["bounds_study"]["datasets"]:
        compared = [cell for cell in bounds_cells() if f"/{dataset}/" in cell]
        yield "compute_bounds", False, SIZES.bounds(dataset), compared
    for study in ("orthogonality", "linearity"):
        values = config[f"{study}_study"]
        kind = f"measure_{study}"
        for dataset, architecture in itertools.product(
            values["datasets"], values["architectures"]
        ):
            amount = SIZES.assembly(study, dataset, architecture)
            for activation in values["activations"]:
                place = f"/{dataset}/{architecture}/{activation}/"
                measured = [cell for cell in assembly_cells(study) if place in cell]
                yield kind, gives_gpu(kind), amount, measured
    for figure in config["figures"]:
        yield "render_figure", False, costs.LIGHT, figure_files(figure)
    measured = ["activations", "precision", "statements"]
    for table in TABLES:
        kind = f"measure_{table}" if table in measured else "aggregate_*"
        yield kind, False, costs.LIGHT, [f"results/{RUN}/tables/{table}.parquet"]


def planned_jobs():
    """Return the jobs of the run that are not done, for the program that estimates them."""
    return planning.groups(
        planning.PlannedJob(kind, amount.flops, amount.memory, gpu=int(gpu))
        for kind, gpu, amount, outputs in [
            *cell_jobs(),
            *training_jobs(),
            *other_jobs(),
        ]
        if not all(Path(output).exists() for output in outputs)
    )
