"""Predict trainings from the NTK at initialisation, and compare them with what happened.

In float64, whatever the training is in: at rates at which a network's expansion is hardly stable,
float32 would leave it to rounding when it reaches a loss.
"""

from pathlib import Path
from typing import Any

import torch

from ntk_conditioning import tables
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.modules import has_batch_norm
from ntk_conditioning.networks.user_models import load
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.curves import POINT_KEYS
from ntk_conditioning.training.prediction import parted, times
from ntk_workflow import cli
from ntk_workflow.trainings.data import labelled_samples
from ntk_workflow.trainings.networks import TrainingTask
from ntk_workflow.trainings.predictions import describe, predict
from ntk_workflow.trainings.settings import TrainingSettings

#: What a row says of its training.
COPIED = (*tables.get("training").keys[:-1], "rate_unit", "learning_rate")
COPIED += ("width", "n", "classes", "loss", "batch_size")


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(*cli.TRAINING, description=__doc__)
    add = parser.add_argument
    add("--activation", required=True)
    add("--training", type=Path, nargs="+", required=True, help="curves of all depths (.parquet)")
    args = parser.parse_args(argv)

    activations.load([args.activation], args.activation_file)
    settings = TrainingSettings.from_words(args.settings)
    samples = labelled_samples(args.data, None, args.dataset, settings)
    user_model = load(args.model_file, args.model_function) if args.model_file else None
    given = {key: vars(args)[key] for key in POINT_KEYS if key != "depth"}

    curves: dict[tuple[int, int], dict[float, list[dict[str, Any]]]] = {}
    for row in tables.collect(args.training, "training").to_pylist():
        of_seed = curves.setdefault((row["depth"], row["seed"]), {})
        of_seed.setdefault(row["relative_rate"], []).append(row)

    rows = []
    for (depth, seed), of_seed in curves.items():
        task = TrainingTask(given | {"depth": depth}, user_model, settings, samples)
        if user_model and has_batch_norm(task.make(generator(0, "init"))):
            problem = "with batch normalisation outputs depend on the other samples of a step"
            raise UserError(f"--model: {problem}; predict others")
        part = task.part(samples.train[seed], torch.float64)
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
        cli.log.info("depth %d, seed %d: %d networks predicted", depth, seed, len(rates))
    tables.write(args.output, "predictions", rows)
