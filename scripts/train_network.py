"""Train the networks of one architecture: all learning rates and seeds as one ensemble.

A job that is killed goes on from its last checkpoint when it is called again, with the same result
to the byte; one that is asked to stop (SIGTERM, Ctrl-C) leaves a checkpoint at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from cell_device import device_argument, torch_device
from cli import UsageError, limit_threads, logger, positive_integer, positive_number, run_main
from cli import positive_integer_or_all as integer_or_all
from training_checkpoints import TrainingCheckpoints
from training_data import Labelled, point, point_parser, test_samples, training_samples
from training_loop import train

from ntk_conditioning import activations, learning_rates, tables
from ntk_conditioning.tables.training import TRAINING, TRAINING_KERNELS, curve_rows
from ntk_conditioning.training import Architecture, Ensemble, Member, Part, make_loss

log = logger(__file__)


def parser() -> argparse.ArgumentParser:
    arguments = point_parser(__doc__)
    add = arguments.add_argument
    add("--test", type=Path, help="prepared test samples (.npz)")
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
    device_argument(arguments)
    add(
        "--products",
        choices=["separate", "together"],
        help="of the networks; by default together on a GPU and separate on a CPU",
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
    for path in args.activation_file:
        activations.load_plugin(path)
    rates = rates_to_try(args)
    samples, labels = training_samples(args)
    test = test_samples(args, labels)
    ensemble = make_ensemble(args, rates, samples, test, classes=len(labels), device=device)
    checkpoints = args.checkpoints and TrainingCheckpoints(args, program=__file__)
    stopped = train(args, ensemble, checkpoints)
    if stopped is not None:
        return 128 + stopped
    write(args, ensemble, samples[args.seeds[0]], test, classes=len(labels))
    if checkpoints:
        checkpoints.forget()
    return 0


def rates_to_try(args: argparse.Namespace) -> list[float]:
    """Return the learning rates, ascending."""
    rates = args.learning_rates
    if args.relative_rates:
        if args.kernel is None:
            raise UsageError("--relative-rates needs the critical rates; give --kernel FILE")
        critical = tables.read(args.kernel, TRAINING_KERNELS)["critical_learning_rate"]
        rates = learning_rates.around(min(critical.to_pylist()), args.relative_rates)
    if len(set(rates)) < len(rates):
        raise UsageError("a learning rate is given twice; give each once")
    return sorted(rates)


def make_ensemble(
    args: argparse.Namespace,
    rates: Sequence[float],
    samples: dict[int, Labelled],
    test: Labelled | None,
    *,
    classes: int,
    device: torch.device,
) -> Ensemble:
    """Return the networks at initialisation, with their samples on the device."""
    dtype = getattr(torch, args.dtype)
    placed: dict[int, Part] = {}

    def part(labelled: Labelled) -> Part:
        if id(labelled) not in placed:  # seeds may share their samples
            x = torch.from_numpy(labelled.x).to(dtype=dtype, device=device)
            placed[id(labelled)] = Part(x, torch.from_numpy(labelled.y).to(device))
        return placed[id(labelled)]

    members = [Member(seed, rate) for seed in args.seeds for rate in rates]
    together = {"separate": False, "together": True, None: device.type == "cuda"}[args.products]
    ensemble = Ensemble(
        Architecture(args.depth, args.width, activations.get(args.activation)),
        make_loss(args.loss, outputs=args.outputs, classes=classes, dtype=dtype, device=device),
        members,
        {seed: part(labelled) for seed, labelled in samples.items()},
        None if test is None else dict.fromkeys(args.seeds, part(test)),
        epochs=args.epochs,
        batch=args.batch_size,
        evaluate_every=args.evaluate_every,
        together=together,
    )
    log.info(
        "device %s, %s, %s: %d networks (%d seeds, rates %s), depth %d, width %d",
        device,
        args.dtype,
        "together" if together else "one by one",
        len(members),
        len(args.seeds),
        ", ".join(f"{rate:g}" for rate in rates),
        args.depth,
        args.width,
    )
    n, d = next(iter(samples.values())).x.shape
    log.info(
        "%d samples of %d features in %d classes, %d steps an epoch, %s test samples",
        *(n, d, classes, ensemble.steps_per_epoch, "no" if test is None else len(test.x)),
    )
    return ensemble


def write(
    args: argparse.Namespace,
    ensemble: Ensemble,
    samples: Labelled,
    test: Labelled | None,
    *,
    classes: int,
) -> None:
    """Write the curves."""
    n, d = samples.x.shape
    labels = {
        **point(args),
        "width": args.width,
        "input_scale": args.input_scale,
        "loss": args.loss,
        "outputs": args.outputs,
        "batch_size": n if args.batch_size == "all" else min(args.batch_size, n),
        "n": n,
        "n_test": 0 if test is None else len(test.x),
        "d": d,
        "classes": classes,
        "dtype": args.dtype,
        "tf32": args.tf32,
    }
    every = args.evaluate_every
    epochs = [e for e in range(args.epochs + 1) if e % every == 0 or e == args.epochs]
    rows = (
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
    )
    tables.write(args.output, TRAINING, tables.from_rows(TRAINING, rows))


if __name__ == "__main__":
    sys.exit(main())
