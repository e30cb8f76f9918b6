"""Train the networks of one architecture: all learning rates and seeds as one ensemble.

A job that is killed goes on from its last checkpoint when it is called again, with the same result
to the byte; one that is asked to stop (SIGTERM, Ctrl-C) leaves a checkpoint at once.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_conditioning.tables.kernels_along_training import KERNELS_ALONG_TRAINING
from ntk_conditioning.tables.training import TRAINING
from ntk_workflow.checkpoints.origin import origin
from ntk_workflow.checkpoints.trainings import CheckpointSettings, TrainingCheckpoints
from ntk_workflow.cli import Argv, UsageError, limit_threads, run_main
from ntk_workflow.cli_activations import load_activation_files
from ntk_workflow.cli_networks import load_own_network
from ntk_workflow.devices import device_argument, torch_device
from ntk_workflow.settings import add_arguments, from_mapping
from ntk_workflow.training_room import telling_what_fits
from ntk_workflow.trainings import networks
from ntk_workflow.trainings.data import labelled_samples
from ntk_workflow.trainings.loop import train
from ntk_workflow.trainings.settings import Point, TrainingSettings, training_parser


@run_main
def main(argv: Argv = None) -> int:
    args = parse(argv)
    if bool(args.kernels_along) != bool(args.kernels_output):
        raise UsageError("--kernels-along and --kernels-output need each other; give both or none")
    device = torch_device(args)
    limit_threads(1)  # of a network; several are trained side by side
    load_activation_files(args)
    own = load_own_network(args)
    given = vars(args)
    point, saving = from_mapping(Point, given), from_mapping(CheckpointSettings, given)
    settings = from_mapping(TrainingSettings, given)
    settings = networks.with_absolute_rates(settings, point, args.kernel)
    samples = labelled_samples(args.data, args.test, point.dataset, settings)
    products = args.products or ("together" if device.type == "cuda" else "separate")
    options = {"device": device.type, "products": products} | asdict(point)
    options |= {"model_function": own.function} if own else {}
    plugins = [*args.activation_file, *([own.file] if own else [])]
    files = {name: sha256(path) for name in ("data", "test") if (path := getattr(args, name))}
    rows: list[dict[str, Any]] = []
    along: list[dict[str, Any]] = []
    finished: list[TrainingCheckpoints] = []
    in_turn = networks.turns(point, settings, samples, own)
    with telling_what_fits(point, settings, samples, device, together=products == "together"):
        for turn in in_turn:
            ensemble = networks.make_ensemble(
                point, turn, samples, device=device, products=products, own=own
            )
            checkpoints = None
            if folder := saving.checkpoints:
                folder = folder / f"seed-{turn.seeds[0]}" if len(in_turn) > 1 else folder
                depends_on = origin(__file__, plugins, options | asdict(turn))
                checkpoints = TrainingCheckpoints(folder, saving, depends_on | {"files": files})
                finished.append(checkpoints)
            stopped = train(ensemble, checkpoints, threads=args.threads, tf32=settings.tf32)
            if stopped is not None:
                return 128 + stopped
            if checkpoints and turn is not in_turn[-1]:
                checkpoints.save(ensemble)  # only its metrics: other seeds have their turn
            rows += networks.ensemble_rows(point, settings, samples, ensemble)
            along += networks.kernel_rows(point, settings, samples, ensemble)
            del ensemble
    tables.write(args.output, TRAINING, tables.from_rows(TRAINING, rows))
    if args.kernels_output:
        kernels = tables.from_rows(KERNELS_ALONG_TRAINING, along)
        tables.write(args.kernels_output, KERNELS_ALONG_TRAINING, kernels)
    for checkpoints in finished:
        checkpoints.forget()
    return 0


def parse(argv: Argv) -> argparse.Namespace:
    parser = training_parser(__doc__, Point, TrainingSettings)
    add = parser.add_argument
    add("--test", type=Path, help="prepared test samples (.npz)")
    add("--kernel", type=Path, help="table of the critical rates (.parquet)")
    add("--kernels-output", type=Path, help="table of --kernels-along (.parquet)")
    device_argument(parser)
    help = "of the networks of mlp; by default together on a GPU and separate on a CPU"
    add("--products", choices=["separate", "together"], help=help)
    add_arguments(parser, CheckpointSettings)
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
