"""Train a network with all its learning rates and seeds, as one ensemble.

A job that is killed goes on from its last checkpoint when it is called again, with the same result
to the byte; one that is asked to stop (SIGTERM, Ctrl-C) leaves a checkpoint at once.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_workflow import cli
from ntk_workflow.checkpoints.trainings import TrainingCheckpoints
from ntk_workflow.cli_activations import load_activation_files
from ntk_workflow.cli_networks import load_own_network
from ntk_workflow.devices import device_argument, torch_device
from ntk_workflow.settings import from_mapping
from ntk_workflow.trainings.data import labelled_samples
from ntk_workflow.trainings.initial_kernels import initial_kernel_rows
from ntk_workflow.trainings.loop import train
from ntk_workflow.trainings.networks import (
    Rows,
    TrainingTask,
    make_ensemble,
    require_possible,
    seed_batches,
    training_rows,
)
from ntk_workflow.trainings.settings import TrainingSettings, training_parser


@cli.run_main
def main(argv: cli.Argv = None) -> int:
    args = parse(argv)
    device = torch_device(args.device)
    cli.limit_threads(1)  # of a network; several are trained side by side
    load_activation_files(args.activation_file)
    settings = from_mapping(TrainingSettings, vars(args))
    if bool(settings.kernels_along) != bool(args.kernels_output):
        raise cli.UsageError("give both or none of --kernels-along and --kernels-output")
    samples = labelled_samples(args.data, args.test, args.dataset, settings)
    of_task = {"own": load_own_network(args), "settings": settings, "samples": samples}
    task = from_mapping(TrainingTask, vars(args) | of_task)
    require_possible(task)
    batches, all_checkpoints = seed_batches(task), []
    rows, kernels, along = Rows(), Rows(), Rows()
    if settings.has_initial_kernel(task.model):
        kernels = initial_kernel_rows(task)
    critical = {row["seed"]: row["critical_learning_rate"] for row in kernels}
    for batch in batches:
        rates = batch.settings.absolute_rates(critical)
        ensemble, checkpoints = make_ensemble(batch, rates, device), None
        if args.checkpoints:
            depends_on = {
                **batch.names,
                **asdict(batch.settings),
                "rates": [*rates.values()],
                "model_function": args.model_function,
                "data": sha256(args.data),
                "test": sha256(args.test) if args.test else None,
                "device": device.type,
                "code": args.code,
                "versions": [np.__version__, torch.__version__],
            }
            part = f"seed-{batch.settings.seeds[0]}" if len(batches) > 1 else ""
            folder, minutes = args.checkpoints / part, args.checkpoint_minutes
            checkpoints = TrainingCheckpoints(folder, depends_on, minutes=minutes)
            all_checkpoints.append(checkpoints)
        stopped = train(ensemble, checkpoints, threads=args.threads, tf32=settings.tf32)
        if stopped is not None:
            return 128 + stopped
        if checkpoints and batch is not batches[-1]:
            checkpoints.save(ensemble)  # only its metrics: other seeds have their turn
        curves, measured = training_rows(batch, rates, ensemble)
        rows += curves
        along += measured
        del ensemble  # before the next seeds take their memory
    of_seeds = [row for row in kernels if row["seed"] in settings.seeds]
    for path, table, of_table in (
        (args.output, tables.get("training"), rows),
        (args.initial_kernels_output, tables.get("training_kernels"), of_seeds),
        (args.kernels_output, tables.get("kernels_along_training"), along),
    ):
        if path:
            tables.write(path, table, tables.from_rows(table, of_table))
    for checkpoints in all_checkpoints:
        checkpoints.forget()
    return 0


def parse(argv: cli.Argv) -> argparse.Namespace:
    parser = training_parser(__doc__)
    add = parser.add_argument
    add("--depth", type=cli.count_from_zero, required=True, help="hidden layers; of resnets all")
    add("--test", type=Path, help="prepared test samples (.npz)")
    add("--output", type=Path, required=True, help="table of curves to write (.parquet)")
    add("--initial-kernels-output", type=Path, help="table of NTKs at initialisation (.parquet)")
    add("--kernels-output", type=Path, help="table of --kernels-along (.parquet)")
    device_argument(parser)
    add("--checkpoints", type=Path, help="folder for checkpoints; without one none are made")
    add("--checkpoint-minutes", type=cli.positive_number, default=5.0, help="between checkpoints")
    add("--code", default="", help="digest of the code, on which checkpoints depend")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
