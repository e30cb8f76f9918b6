# Jobs: which of them compute the cells, and what they ask for.
#
# Needs: rules/common.smk. Makes: CELL_JOBS and functions for the rules' resources. On one machine
# these say nothing but what an estimate is made of; a cluster or a cloud allots by them.

SIZES = sizes.Sizes(
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
        return resources.core_seconds(kind, row)

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
    return lambda wildcards, attempt: resources.mem_mb(
        cell_work(kind, batch, wildcards), attempt
    )


def cell_minutes(kind, batch):
    """Return a function that gives the time limit of a job of cells, in minutes."""
    gpu = gives_gpu(f"{kind}{batch.suffix}")
    return lambda wildcards, attempt: resources.runtime(
        kind, cell_work(kind, batch, wildcards), attempt, gpu=gpu
    )


def cell_seconds(kind, batch):
    """Return a function that gives the time of a job of cells on one core or GPU."""
    gpu = gives_gpu(f"{kind}{batch.suffix}")
    return lambda wildcards: resources.core_seconds(
        kind, cell_work(kind, batch, wildcards), gpu=gpu
    )


def training_work(kind, wildcards):
    """Return the work of train_network or compute_training_kernel for one network."""
    count = SIZES.training if kind == "train_network" else SIZES.training_kernel
    w = wildcards
    return count(w.experiment, w.dataset, w.model, w.activation, int(w.depth))


def training_memory(kind):
    """Return a function that gives the memory of such a job, in MB."""
    return lambda wildcards, attempt: resources.mem_mb(
        training_work(kind, wildcards), attempt
    )


def training_minutes(kind):
    """Return a function that gives the time limit of such a job, in minutes."""
    gpu = gives_gpu(kind)
    return lambda wildcards, attempt: resources.runtime(
        kind, training_work(kind, wildcards), attempt, gpu=gpu
    )


def training_seconds(kind):
    """Return a function that gives the time of such a job on one core or GPU."""
    gpu = gives_gpu(kind)
    return lambda wildcards: resources.core_seconds(
        kind, training_work(kind, wildcards), gpu=gpu
    )


def assembly_memory(study):
    """Return a function that gives the memory of a study's job, in MB."""
    return lambda wildcards, attempt: resources.mem_mb(
        SIZES.assembly(study, wildcards.dataset, wildcards.architecture), attempt
    )


def assembly_minutes(study):
    """Return a function that gives the time limit of a study's job, in minutes."""
    kind = f"measure_{study}"
    gpu = gives_gpu(kind)
    return lambda wildcards, attempt: resources.runtime(
        kind,
        SIZES.assembly(study, wildcards.dataset, wildcards.architecture),
        attempt,
        gpu=gpu,
    )


def assembly_seconds(study):
    """Return a function that gives the time of a study's job on one core or GPU."""
    kind = f"measure_{study}"
    gpu = gives_gpu(kind)
    return lambda wildcards: resources.core_seconds(
        kind, SIZES.assembly(study, wildcards.dataset, wildcards.architecture), gpu=gpu
    )
