"""What the programs share that train networks: their arguments, and the samples of each seed."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.prepared import PreparedSamples, load_prepared
from ntk_conditioning.data.subsets import draw, seed_stream
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.architectures import MODELS
from ntk_conditioning.seeds import generator
from ntk_workflow.cli import (
    HOW_TO_PREPARE,
    Parser,
    UsageError,
    logger,
    positive_integer,
    positive_integer_or_all,
    seed,
    threads_argument,
)
from ntk_workflow.cli_activations import activation_files_argument

log = logger(__file__)


class LabelError(UserError):
    """A dataset has no labels, or a test set has classes of its own."""


def point_parser(description: str | None) -> Parser:
    """Return a parser with the arguments that name a network and its training samples."""
    parser = Parser(description=description)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared training samples, whole (.npz)")
    add("--experiment", required=True, help="name written into the table")
    add("--dataset", required=True, help="name written into the table")
    add("--model", choices=MODELS, default="mlp", help="kind of network")
    add("--activation", required=True, help="name of the activation")
    activation_files_argument(parser)
    add("--depth", type=seed, required=True, help="number of hidden layers")
    add(
        "--width",
        type=positive_integer,
        default=512,
        help="hidden units per layer, or channels of a resnet's first stage",
    )
    add("--seeds", type=seed, nargs="+", required=True, help="seeds, a network for each")
    add(
        "--samples",
        type=positive_integer_or_all,
        default="all",
        help="training samples that every seed draws for itself, or all",
    )
    add(
        "--input-scale",
        choices=["none", "fan_in"],
        default="none",
        help="fan_in multiplies samples by sqrt(2/d), as the first layer of the published code",
    )
    threads_argument(parser)
    add("--output", type=Path, required=True, help="table to write (.parquet)")
    return parser


def point(args: argparse.Namespace) -> dict[str, object]:
    """Return the columns that name the network."""
    keys = ("experiment", "dataset", "model", "activation", "depth")
    return {key: getattr(args, key) for key in keys}


def training_samples(
    args: argparse.Namespace,
) -> tuple[dict[int, PreparedSamples], NDArray[np.int64]]:
    """Return the training samples of every seed, and the labels of the classes.

    Their ``y`` counts the classes from 0. Classes are those of the whole dataset, so that a draw
    that lacks one has as many.

    Raises:
        LabelError: if the dataset has no labels.
        SubsetError: if there are not so many samples.
    """
    if len(set(args.seeds)) < len(args.seeds):
        raise UsageError("--seeds gives a seed twice; give each once")
    data = load_prepared(args.data, hint=HOW_TO_PREPARE)
    if data.y is None:
        raise LabelError(f"{args.data} has no labels, and training needs them; name a labelled one")
    labels, y = np.unique(data.y, return_inverse=True)
    whole = replace(data, x=scaled_input(args, data.x), y=y)
    if args.samples == "all":
        return dict.fromkeys(args.seeds, whole), labels
    drawn = {}
    for number in args.seeds:
        rows = draw(args.dataset, len(y), args.samples, generator=seed_stream(number))
        drawn[number] = whole.rows(rows)
    return drawn, labels


def labelled_samples(
    args: argparse.Namespace,
) -> tuple[dict[int, PreparedSamples], dict[int, PreparedSamples] | None, int]:
    """Return every seed's training samples, its test samples if any, and the number of classes.

    Raises:
        LabelError, SubsetError: as `training_samples` and `test_samples`.
    """
    samples, labels = training_samples(args)
    if args.test and args.test_share:
        raise UsageError("--test and --test-share exclude each other; give one of them")
    if args.test_share:
        parts = {number: hold_out(args, number, own) for number, own in samples.items()}
        train = {number: kept for number, (kept, _) in parts.items()}
        return train, {number: held for number, (_, held) in parts.items()}, len(labels)
    test = test_samples(args, labels)
    return samples, None if test is None else dict.fromkeys(samples, test), len(labels)


def hold_out(
    args: argparse.Namespace, seed: int, samples: PreparedSamples
) -> tuple[PreparedSamples, PreparedSamples]:
    """Return what a seed trains on and what it is tested on, both in the samples' order."""
    n = len(samples.x)
    held = round(args.test_share * n)
    if not 0 < held < n - 1:
        raise UsageError(
            f"--test-share {args.test_share:g} of {n} samples is {held}; leave at least 2 to train "
            "on and 1 to test on"
        )
    # The first child draws the samples, see `draws.seed_stream`.
    _, stream = generator(seed, "data").spawn(2)
    chosen = np.zeros(n, dtype=bool)
    chosen[stream.permutation(n)[:held]] = True
    return samples.rows(~chosen), samples.rows(chosen)


def test_samples(args: argparse.Namespace, labels: NDArray[np.int64]) -> PreparedSamples | None:
    """Return the test samples, scaled like the training samples, if there are any.

    Raises:
        LabelError: if they have no labels, or labels that no training sample has.
    """
    if args.test is None:
        return None
    data = load_prepared(args.test, like=args.data, hint=HOW_TO_PREPARE)
    if data.y is None:
        raise LabelError(f"{args.test} has no labels; leave the test set out")
    unknown = np.setdiff1d(data.y, labels)
    if len(unknown):
        raise LabelError(f"{args.test} has label {unknown[0]}, which no sample of {args.data} has")
    return replace(data, x=scaled_input(args, data.x), y=np.searchsorted(labels, data.y))


def scaled_input(args: argparse.Namespace, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the samples as the networks get them.

    Eq. (1) of liu2023relu has no factor before the first layer, the published code sqrt(2/d). For
    homogeneous activations that only divides outputs and gradients, which a loss other than the
    square one feels.
    """
    return x * math.sqrt(2 / x.shape[1]) if args.input_scale == "fan_in" else x
