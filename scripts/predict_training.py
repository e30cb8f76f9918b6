"""Predict trainings from the NTK at initialisation, and compare them with what happened.

For plain full-batch descent on the square loss the prediction is a sum over eigenvectors; otherwise
the network's expansion in its weights is trained on the same samples in the same order. Both are
in float64, whatever the training is in: at rates at which an expansion is hardly stable, float32
would leave it to rounding when it reaches a loss.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ntk_conditioning import tables
from ntk_conditioning.networks.own import OwnModel
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import conditioning
from ntk_conditioning.spectra.labels import kernel_target_alignment, label_spectrum
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.predicted_times import SHARES, known, parted, time_columns, times
from ntk_conditioning.training.prediction import predicted_losses, predicted_steps
from ntk_conditioning.training.trainer import Member, Part
from ntk_workflow.cli import Argv, limit_threads, logger, run_main
from ntk_workflow.cli_activations import load_activation_files
from ntk_workflow.cli_networks import load_own_network
from ntk_workflow.settings import from_mapping
from ntk_workflow.trainings.data import LabelledSamples, labelled_samples
from ntk_workflow.trainings.expansions import Tangents, initial_expansions
from ntk_workflow.trainings.networks import as_seen, image_of
from ntk_workflow.trainings.settings import (
    Family,
    Point,
    Rates,
    TrainingSettings,
    training_parser,
)

log = logger(__file__)

#: Samples of the kernel that is described, at most.
MOST_SAMPLES = 512
#: Rows of a kernel of all outputs whose eigenvectors are computed, at most.
MOST_ROWS = 4096
#: What a row says of its training.
COPIED = (
    *tables.get("training").keys[:-1],
    "rate_unit",
    "learning_rate",
    "width",
    "n",
    "classes",
    "loss",
)
COPIED += ("batch_size",)
#: Numbers of eigenvalues at which the label energy is told.
RANKS = 64


@run_main
def main(argv: Argv = None) -> None:
    parser = training_parser(__doc__, Family)
    add = parser.add_argument
    add("--training", type=Path, nargs="+", required=True, help="curves of all depths (.parquet)")
    args = parser.parse_args(argv)
    limit_threads(args.threads)
    load_activation_files(args.activation_file)
    own = load_own_network(args)
    family, settings = from_mapping(Family, vars(args)), from_mapping(TrainingSettings, vars(args))
    samples = labelled_samples(args.data, None, family.dataset, settings)
    curves: dict[int, dict[tuple[int, float], list[dict[str, Any]]]] = {}
    for row in tables.read([str(path) for path in args.training], "training").to_pylist():
        of_depth = curves.setdefault(row["depth"], {})
        of_depth.setdefault((row["seed"], row["relative_rate"]), []).append(row)
    rows: list[dict[str, Any]] = []
    for depth, of_depth in curves.items():
        rates = {key: curve[0]["learning_rate"] for key, curve in of_depth.items()}
        point = Point(**vars(family), depth=depth)
        predictions = predict(point, settings, rates, samples, own)
        for key, curve in of_depth.items():
            epochs = [row["epoch"] for row in curve]
            losses = [row["train_loss"] for row in curve]
            predicted = predictions[key]
            rows.append(
                {name: curve[0][name] for name in COPIED}
                | {"last_epoch": epochs[-1], "epochs": epochs, "train_loss": losses}
                | predicted
                | times(epochs, losses)
                | {"parted_epoch": parted(epochs, losses, predicted["predicted_loss"])}
            )
        log.info("depth %d: %d networks predicted", depth, len(predictions))
    tables.write(args.output, "predictions", tables.from_rows("predictions", rows))


def predict(
    point: Point,
    settings: TrainingSettings,
    rates: Rates,
    samples: LabelledSamples,
    own: OwnModel | None,
) -> dict[tuple[int, float], dict[str, Any]]:
    """Return the columns of every seed's and rate's prediction, and of its kernel."""
    outputs: Any = {"outputs": settings.outputs, "classes": samples.classes}
    loss = make_loss(settings.loss, **outputs, dtype=torch.float64)
    networks = initial_expansions(point, settings, samples, own)
    n, course = samples.shape[0], settings.descent
    closed = settings.loss == "square" and settings.batch_size in ("all", n)
    closed &= course.momentum == 0 and course.plain and n * loss.outputs <= MOST_ROWS
    found = {}
    for number, part in samples.train.items():
        of_seed = {key: rate for key, rate in rates.items() if key[0] == number}
        x = as_seen(part.x, image_of(point, settings))
        y = torch.from_numpy(part.y)
        chosen = generator(number, "blocks").permutation(len(x))[:MOST_SAMPLES]
        described = describe(networks.at(number, x[chosen]), loss.codes[y[chosen]])
        if closed:
            whole = networks.at(number, x)
            residual = (loss.codes[y] - whole.f).reshape(-1).numpy()
            values, vectors = np.linalg.eigh(whole.kernel().numpy())
            squares = np.square(vectors.T @ residual)
            for key, rate in of_seed.items():
                of: Any = {"rate": rate, "n": n}
                curve = predicted_losses(values, squares, **of, steps=course.evaluated)
                when = {k: predicted_steps(values, squares, **of, share=SHARES[k]) for k in SHARES}
                found[key] = described | {
                    "method": "eigenvectors",
                    "predicted_loss": curve.tolist(),
                    **time_columns(when, prefix="predicted_"),
                }
            continue
        members = [Member(number, rate) for rate in of_seed.values()]
        ensemble = networks.ensemble(loss, members, {number: Part(x, y)}, course)
        while not ensemble.finished:
            ensemble.advance()
        for k, key in enumerate(of_seed):
            losses = known(ensemble.metrics["train_loss"][course.evaluated, k].tolist())
            found[key] = described | {
                "method": "flow",
                "predicted_loss": losses,
                **times(course.evaluated, losses, prefix="predicted_"),
            }
    return found


def describe(here: Tangents, targets: torch.Tensor) -> dict[str, Any]:
    """Return the columns of the kernel at initialisation and of the labels in it."""
    k = here.mean_kernel().numpy()
    spectrum = conditioning(k)
    labels = label_spectrum(k, (targets - here.f).numpy())
    resolved = labels.effective_kappa * spectrum.resolution_floor < spectrum.lambda_max
    ranks = log_ranks(len(k))
    return {
        "kernel_n": len(k),
        "lambda_max": spectrum.lambda_max,
        "kappa": spectrum.kappa,
        "effective_kappa": labels.effective_kappa if resolved else None,
        "alignment": kernel_target_alignment(k, targets.numpy()),
        "critical_learning_rate": 2 * len(k) / spectrum.lambda_max,
        "ranks": ranks.astype(float).tolist(),
        "eigenvalues": labels.eigenvalues[ranks - 1].tolist(),
        "label_energy": np.cumsum(labels.energy)[ranks - 1].tolist(),
    }


def log_ranks(n: int) -> NDArray[np.int64]:
    """Return about `RANKS` numbers from 1 to n, evenly in their logarithm."""
    return np.unique(np.geomspace(1, n, RANKS).round().astype(np.int64))


if __name__ == "__main__":
    raise SystemExit(main())
