"""Train the networks of one architecture: all learning rates and seeds as one ensemble.

A job that is killed goes on from its last checkpoint when it is called again, with the same result
to the byte; one that is asked to stop (SIGTERM, Ctrl-C) leaves a checkpoint at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples
from ntk_conditioning.networks.architectures import MODELS
from ntk_conditioning.tables.training import TRAINING, TRAINING_KERNELS, curve_rows
from ntk_conditioning.training import Training, learning_rates
from ntk_workflow.checkpoints.trainings import TrainingCheckpoints
from ntk_workflow.cli import (
    UsageError,
    limit_threads,
    positive_integer,
    positive_number,
    run_main,
    share,
)
from ntk_workflow.cli import positive_integer_or_all as integer_or_all
from ntk_workflow.cli_activations import load_activation_files
from ntk_workflow.devices.device import device_argument, torch_device
from ntk_workflow.trainings.data import labelled_samples, point, point_parser
from ntk_workflow.trainings.loop import train
from ntk_workflow.trainings.networks import descent_arguments, make_ensemble, sees_images, turns


def parser() -> argparse.ArgumentParser:
    arguments = point_parser(__doc__)
    add = arguments.add_argument
    add("--test", type=Path, help="prepared test samples (.npz)")
    add(
        "--test-share",
        type=share,
        default=0.0,
        help="share of the samples that every seed holds out, in place of --test",
    )
    add("--loss", choices=["cross_entropy", "square"], default="cross_entropy")
    add(
        "--outputs",
        choices=["classes", "scalar"],
        default="classes",
        help="an output for each class, or one whose targets are spaced evenly from -1 to 1",
    )
    add("--batch-size", type=integer_or_all, default=500, help="samples per step, or all")
    add("--epochs", type=positive_integer, required=True, help="passes over the samples")
    add("--evaluate-every", type=positive_integer, default=1, help="epochs between evaluations")
    rates = arguments.add_mutually_exclusive_group(required=True)
    rates.add_argument("--learning-rates", type=positive_number, nargs="+", help="rates to try")
    rates.add_argument(
        "--relative-rates",
        type=positive_number,
        nargs="+",
        help="rates to try, in units of the smallest critical rate in --kernel",
    )
    add("--kernel", type=Path, help="table of the critical rates (.parquet)")
    add("--dtype", choices=["float32", "float64"], default="float32")
    add("--tf32", action="store_true", help="let a GPU round products to TF32")
    descent_arguments(arguments)
    device_argument(arguments)
    add(
        "--products",
        choices=["separate", "together"],
        help="of the networks of mlp; by default together on a GPU and separate on a CPU",
    )
    add("--checkpoints", type=Path, help="folder for checkpoints; without one none are made")
    add("--checkpoint-minutes", type=positive_number, default=5.0, help="time between checkpoints")
    add("--checkpoint-epochs", type=positive_integer, help="epochs between checkpoints")
    return arguments


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    device = torch_device(args)
    limit_threads(1)  # of a network; several are trained side by side
    load_activation_files(args)
    rates = rates_to_try(args)
    samples, test, classes = labelled_samples(args)
    rows: list[dict[str, Any]] = []
    kept: list[TrainingCheckpoints] = []
    for own in turns(args, rates, samples, classes=classes):
        ensemble = make_ensemble(own, rates, samples, test, classes=classes, device=device)
        checkpoints = own.checkpoints and TrainingCheckpoints(own, program=__file__)
        kept += [checkpoints] if checkpoints else []
        stopped = train(own, ensemble, checkpoints)
        if stopped is not None:
            return 128 + stopped
        if checkpoints and own.seeds[-1] != args.seeds[-1]:
            checkpoints.save(ensemble)  # only its metrics: other seeds have their turn
        rows += curves(args, ensemble, samples, test, classes=classes)
        del ensemble
    tables.write(args.output, TRAINING, tables.from_rows(TRAINING, rows))
    for checkpoints in kept:
        checkpoints.forget()
    return 0


def rates_to_try(args: argparse.Namespace) -> list[float]:
    """Return the learning rates, ascending."""
    rates = args.learning_rates
    if args.relative_rates:
        if MODELS[args.model].by_modules:
            raise UsageError(f"--relative-rates: critical rates are known of mlp, not {args.model}")
        if args.kernel is None:
            raise UsageError("--relative-rates needs the critical rates; give --kernel FILE")
        critical = tables.read(args.kernel, TRAINING_KERNELS)["critical_learning_rate"]
        rates = learning_rates.around(min(critical.to_pylist()), args.relative_rates)
    if len(set(rates)) < len(rates):
        raise UsageError("a learning rate is given twice; give each once")
    return sorted(rates)


def curves(
    args: argparse.Namespace,
    ensemble: Training[Any],
    samples: dict[int, PreparedSamples],
    test: dict[int, PreparedSamples] | None,
    *,
    classes: int,
) -> list[dict[str, Any]]:
    """Return the rows of an ensemble's curves."""
    n, d = samples[args.seeds[0]].x.shape
    labels = {
        **point(args),
        "width": args.width,
        "input_scale": args.input_scale,
        "loss": args.loss,
        "outputs": args.outputs,
        "batch_size": n if args.batch_size == "all" else min(args.batch_size, n),
        "momentum": args.momentum,
        "weight_decay": args.weight_decay,
        "decay_at": " ".join(map(str, args.decay_at)) or "none",
        "decay_factor": args.decay_factor,
        "augmentation": args.augmentation,
        "mixed_precision": args.mixed_precision,
        "n": n,
        "n_test": len(test[args.seeds[0]].x) if test else 0,
        "d": d,
        "image": " ".join(map(str, args.image)) if sees_images(args) else "none",
        "classes": classes,
        "dtype": args.dtype,
        "tf32": args.tf32,
    }
    every = args.evaluate_every
    epochs = [e for e in range(args.epochs + 1) if e % every == 0 or e == args.epochs]
    return [
        row
        for number, member in enumerate(ensemble.members)
        for row in curve_rows(
            labels,
            seed=member.seed,
            rate=member.rate,
            steps_per_epoch=ensemble.steps_per_epoch,
            metrics={name: values[:, number] for name, values in ensemble.metrics.items()},
            diverged=int(ensemble.diverged[number]),
            epochs=epochs,
        )
    ]


if __name__ == "__main__":
    sys.exit(main())
