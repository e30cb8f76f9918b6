"""The networks of a training, at initialisation, from the arguments of its program."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any, get_args

import torch

from ntk_conditioning.data.prepared import PreparedSamples
from ntk_conditioning.networks.architectures import MODELS, depth_problem, seeds_in_turn, sizes
from ntk_conditioning.networks.mlp import activations
from ntk_conditioning.training import (
    Architecture,
    Augmentation,
    Descent,
    Ensemble,
    Member,
    ModuleEnsemble,
    Part,
    Training,
    make_loss,
    make_network,
)
from ntk_workflow.cli import (
    Parser,
    UsageError,
    logger,
    not_negative,
    positive_integer,
    positive_number,
    share,
)

log = logger(__file__)

#: Plain gradient descent, which is all that mlp has.
PLAIN = Descent()


def descent_arguments(parser: Parser) -> None:
    """Add what networks of torch's modules have beyond plain gradient descent."""
    add = parser.add_argument
    add("--image", type=positive_integer, nargs=3, metavar=("HEIGHT", "WIDTH", "COLOURS"))
    add("--momentum", type=share, default=0.0, help="share of a step that the next one repeats")
    add("--weight-decay", type=not_negative, default=0.0, help="added to the gradient, of weights")
    add("--decay-at", type=positive_integer, nargs="+", default=[], help="epochs: the rate falls")
    add("--decay-factor", type=positive_number, default=0.1, help="of the learning rate, then")
    add("--augmentation", choices=get_args(Augmentation), default="none", help="of images")
    add("--mixed-precision", action="store_true", help="products of bfloat16, by autocast")


def turns(
    args: argparse.Namespace,
    rates: Sequence[float],
    samples: dict[int, PreparedSamples],
    *,
    classes: int,
) -> list[argparse.Namespace]:
    """Return the arguments of the ensembles that are trained one after the other.

    Most trainings are one; of large networks there are several, of some seeds each.
    """
    n, d = next(iter(samples.values())).x.shape
    require_possible(args, n=n, d=d)
    if not MODELS[args.model].by_modules:
        return [args]
    outputs = classes if args.outputs == "classes" else 1
    shape = {"d": d, "width": args.width, "depth": args.depth, "image": args.image}
    weights = sizes(args.model, **shape, outputs=outputs).weights
    most = seeds_in_turn(weights * len(rates))
    if most >= len(args.seeds):
        return [args]
    found = []
    for first in range(0, len(args.seeds), most):
        folder = args.checkpoints and args.checkpoints / f"seed-{args.seeds[first]}"
        own = {"seeds": args.seeds[first : first + most], "checkpoints": folder}
        found.append(argparse.Namespace(**vars(args) | own))
    return found


def make_ensemble(
    args: argparse.Namespace,
    rates: Sequence[float],
    samples: dict[int, PreparedSamples],
    test: dict[int, PreparedSamples] | None,
    *,
    classes: int,
    device: torch.device,
) -> Training[Any]:
    """Return the networks at initialisation, with their samples on the device."""
    model, dtype = MODELS[args.model], getattr(torch, args.dtype)
    n, d = next(iter(samples.values())).x.shape
    images = sees_images(args)
    placed: dict[int, Part] = {}

    def part(labelled: PreparedSamples) -> Part:
        assert labelled.y is not None  # `training_data` refuses them without
        if id(labelled) not in placed:  # seeds may share their samples
            x = torch.from_numpy(labelled.x).to(dtype=dtype)
            if images:  # rows, columns, colours: torch wants the colours first
                x = x.reshape(len(x), *args.image).movedim(-1, 1).contiguous()
            placed[id(labelled)] = Part(x.to(device), torch.from_numpy(labelled.y).to(device))
        return placed[id(labelled)]

    members = [Member(seed, rate) for seed in args.seeds for rate in rates]
    samples = {seed: samples[seed] for seed in args.seeds}
    test = test and {seed: test[seed] for seed in args.seeds}
    activation = activations.get(args.activation)
    loss = make_loss(args.loss, outputs=args.outputs, classes=classes, dtype=dtype, device=device)
    parts = {seed: part(labelled) for seed, labelled in samples.items()}
    tests = test and {seed: part(labelled) for seed, labelled in test.items()}
    course = {
        "epochs": args.epochs,
        "batch": args.batch_size,
        "evaluate_every": args.evaluate_every,
    }
    ensemble: Training[Any]
    together = False
    if model.by_modules:
        make = partial(
            make_network,
            args.model,
            d=d,
            image=args.image and tuple(args.image),
            depth=args.depth,
            width=args.width,
            activation=activation,
            outputs=loss.outputs,
            dtype=dtype,
        )
        ensemble = ModuleEnsemble(
            make, loss, members, parts, tests, **course, descent=descent(args)
        )
    else:
        together = {"separate": False, "together": True, None: device.type == "cuda"}[args.products]
        architecture = Architecture(args.depth, args.width, activation)
        ensemble = Ensemble(architecture, loss, members, parts, tests, **course, together=together)
    log.info(
        "device %s, %s, %s: %d networks (%d seeds, rates %s), %s of depth %d, width %d",
        device,
        f"{args.dtype}, products of bfloat16" if args.mixed_precision else args.dtype,
        "together" if together else "one by one",
        len(members),
        len(args.seeds),
        ", ".join(f"{rate:g}" for rate in rates),
        args.model,
        args.depth,
        args.width,
    )
    tested = "no" if test is None else len(next(iter(test.values())).x)
    log.info(
        "%d samples of %d features in %d classes, %d steps an epoch, %s test samples",
        *(n, d, classes, ensemble.steps_per_epoch, tested),
    )
    return ensemble


def sees_images(args: argparse.Namespace) -> bool:
    """Return whether samples are images to the networks, or to what is done to them before."""
    return MODELS[args.model].needs_images or args.augmentation != "none"


def descent(args: argparse.Namespace) -> Descent:
    """Return what goes beyond plain gradient descent."""
    return Descent(
        args.momentum,
        args.weight_decay,
        tuple(args.decay_at),
        args.decay_factor,
        args.augmentation,
        args.mixed_precision,
    )


def require_possible(args: argparse.Namespace, *, n: int, d: int) -> None:
    """Raise `UsageError` for networks, images or batches that do not go together."""
    model = MODELS[args.model]
    if not model.by_modules and descent(args) != PLAIN:
        raise UsageError(
            f"{args.model} is trained by plain gradient descent; leave momentum, weight decay, "
            "decays, augmentation and mixed precision out"
        )
    if problem := depth_problem(args.model, args.depth):
        raise UsageError(f"--depth {args.depth}: {problem}")
    if args.image is None and sees_images(args):
        raise UsageError("images are needed; give --image HEIGHT WIDTH COLOURS")
    if args.image is not None and args.image[0] * args.image[1] * args.image[2] != d:
        shape = " x ".join(map(str, args.image))
        raise UsageError(f"--image: {shape} is not the {d} features of a sample")
    if args.mixed_precision and args.dtype != "float32":
        raise UsageError(f"--mixed-precision needs --dtype float32, not {args.dtype}")
    batch = n if args.batch_size == "all" else args.batch_size
    if model.normalization == "batch" and n % batch == 1:
        raise UsageError(
            f"--batch-size {batch}: an epoch of {n} samples ends with a step of one, which has no "
            "variance to normalise by; take another size"
        )
