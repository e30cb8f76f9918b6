"""Train a network with all its learning rates and seeds, as one ensemble.

A job that is killed goes on from its last checkpoint when it is called again, with the same result
to the byte; one that is asked to stop (SIGTERM, Ctrl-C) leaves a checkpoint at once.
"""

from dataclasses import asdict
from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.architectures import kind_of
from ntk_conditioning.networks.user_models import load, require_trainable
from ntk_conditioning.threads import limit_threads
from ntk_conditioning.training.curves import POINT_KEYS
from ntk_workflow import cli
from ntk_workflow.checkpoints import digest
from ntk_workflow.devices import torch_device
from ntk_workflow.trainings import networks
from ntk_workflow.trainings.data import labelled_samples
from ntk_workflow.trainings.loop import train
from ntk_workflow.trainings.settings import TrainingSettings


@cli.program
def main(argv: cli.Argv = None) -> int:
    options = (*cli.TRAINING, "device", "checkpoints", "code")
    parser = cli.Parser(*options, description=__doc__)
    add = parser.add_argument
    add("--activation", required=True)
    add("--depth", type=cli.count_from_zero, required=True, help="hidden layers; of resnets all")
    add("--test", type=Path, help="prepared test samples (.npz)")
    add("--initial-kernels-output", type=Path, help="table of NTKs at initialisation (.parquet)")
    add("--kernels-output", type=Path, help="table of kernels_along (.parquet)")
    args = parser.parse_args(argv)

    device = torch_device(args.device)
    limit_threads(1)  # of a network; several are trained side by side
    activations.load([args.activation], args.activation_file)
    settings = TrainingSettings.from_words(args.settings)
    samples = labelled_samples(args.data, args.test, args.dataset, settings)
    names = {key: vars(args)[key] for key in POINT_KEYS}
    user_model = load(args.model_file, args.model_function) if args.model_file else None
    task = networks.TrainingTask(names, user_model, settings, samples)
    if user_model:
        require_trainable(user_model, **task.size)
    networks.require_batches(task)
    kernels = networks.Rows()
    # of torch's modules kernels take as long as a small training
    if settings.rate_unit != "one" or not kind_of(args.model).by_modules:
        kernels = networks.initial_kernel_rows(task)
    critical = {row["seed"]: row["critical_learning_rate"] for row in kernels}
    rates = settings.absolute_rates(critical)
    depends_on = names | asdict(settings) | {"rates": [*rates.values()], "code": args.code}
    depends_on |= {"model_function": args.model_function, "device": device.type}
    depends_on |= {"data": sha256(args.data), "test": args.test and sha256(args.test)}
    ensemble = networks.make_ensemble(task, rates, device)
    checkpoint = args.checkpoints and args.checkpoints / f"{digest(depends_on)}.npz"
    stopped = train(ensemble, checkpoint, threads=args.threads, tf32=settings.tf32)
    if stopped is not None:
        return 128 + stopped
    curves, along = networks.training_rows(task, rates, ensemble)
    tables.write(args.output, "training", curves)
    if args.initial_kernels_output:
        of_seeds = [row for row in kernels if row["seed"] in settings.seeds]
        tables.write(args.initial_kernels_output, "training_kernels", of_seeds)
    if args.kernels_output:
        tables.write(args.kernels_output, "kernels_along_training", along)
    for path in args.checkpoints.glob("*.npz") if args.checkpoints else ():
        path.unlink(missing_ok=True)  # also those of other settings or half written
    return 0
