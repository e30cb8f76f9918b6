"""Predict trainings from the NTK at initialisation, and compare them with what happened.

In float64, whatever the training is in: at rates at which a network's expansion is hardly stable,
float32 would leave it to rounding when it reaches a loss.
"""

from pathlib import Path
from typing import Any

import torch

from ntk_conditioning import tables
from ntk_conditioning.networks.statistics import has_batch_norm
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.curves import POINT_KEYS
from ntk_conditioning.training.predicted_times import parted, times
from ntk_conditioning.training.prediction import UNPREDICTABLE
from ntk_conditioning.training.trainer import Part
from ntk_workflow import cli
from ntk_workflow.cli_activations import load_activation_files
from ntk_workflow.cli_networks import load_own_network
from ntk_workflow.trainings.data import labelled_samples
from ntk_workflow.trainings.networks import TrainingTask, as_seen
from ntk_workflow.trainings.options import training_parser
from ntk_workflow.trainings.predictions import describe, predict
from ntk_workflow.trainings.settings import TrainingSettings

log = cli.logger(__file__)

#: What a row says of its training.
COPIED = (*tables.get("training").keys[:-1], "rate_unit", "learning_rate")
COPIED += ("width", "n", "classes", "loss", "batch_size")


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser = training_parser(__doc__)
    add = parser.add_argument
    add("--training", type=Path, nargs="+", required=True, help="curves of all depths (.parquet)")
    add("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)
    cli.limit_threads(args.threads)
    load_activation_files(args.activation_file)
    settings = TrainingSettings.from_words(args.settings)
    samples, own = labelled_samples(args.data, None, args.dataset, settings), load_own_network(args)
    given: Any = {key: vars(args)[key] for key in POINT_KEYS[:-1]} | {"own": own}

    curves: dict[tuple[int, int], dict[float, list[dict[str, Any]]]] = {}
    for row in tables.read([str(path) for path in args.training], "training").to_pylist():
        of_seed = curves.setdefault((row["depth"], row["seed"]), {})
        of_seed.setdefault(row["relative_rate"], []).append(row)

    rows: list[dict[str, Any]] = []
    for (depth, seed), of_seed in curves.items():
        task = TrainingTask(**given, depth=depth, settings=settings, samples=samples)
        if own and has_batch_norm(task.make(generator(0, "init"))):
            raise cli.UsageError(f"--model: {UNPREDICTABLE}; predict others")
        data = samples.train[seed]
        part = Part(as_seen(data.x, task.image), torch.from_numpy(data.y))
        described = describe(task, seed, part)
        rates = [curve[0]["learning_rate"] for curve in of_seed.values()]
        predicted = predict(task, seed, part, rates)
        for curve, prediction in zip(of_seed.values(), predicted, strict=True):
            epochs = [row["epoch"] for row in curve]
            losses = [row["train_loss"] for row in curve]
            rows.append(
                {name: curve[0][name] for name in COPIED}
                | {"last_epoch": epochs[-1], "epochs": epochs, "train_loss": losses}
                | described
                | prediction
                | times(epochs, losses)
                | {"parted_epoch": parted(epochs, losses, prediction["predicted_loss"])}
            )
        log.info("depth %d, seed %d: %d networks predicted", depth, seed, len(rates))
    tables.write(args.output, "predictions", rows)


if __name__ == "__main__":
    raise SystemExit(main())
