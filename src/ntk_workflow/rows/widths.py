"""What the programs share that study assemblies of neurons: arguments, samples, and cells by width.

A program computes the widths of one architecture, each in a file of its own with all its seeds,
written as soon as it is done.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.data.subsets import SubsetError, draw, seed_stream
from ntk_conditioning.seeds import generator
from ntk_conditioning.tables import Table
from ntk_conditioning.transition.feedforward import Assembly, draw_assembly, on_span
from ntk_workflow.checkpoints.cells import Checkpoints, forget_others, is_kept, place
from ntk_workflow.cli import (
    HOW_TO_PREPARE,
    Parser,
    UsageError,
    limit_threads,
    logger,
    positive_integer,
    positive_number,
    seed,
    threads_argument,
)
from ntk_workflow.cli_activations import activation_files_argument, load_activation_files
from ntk_workflow.devices.device import device_argument, torch_device

log = logger(__file__)


@dataclass(frozen=True)
class Samples:
    """Samples ``x`` (n, d) of two classes, their labels ``y`` (n,) of -1 and 1."""

    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Network:
    """A network to study, at its initialisation, and the samples in its coordinates."""

    assembly: Assembly
    samples: Samples
    seed: int


def assembly_parser(description: str | None) -> Parser:
    """Return a parser with the arguments of every study."""
    parser = Parser(description=description)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared dataset (.npz), with labels")
    add("--dataset", required=True, help="name written into the table")
    add("--samples", type=positive_integer, default=20, help="samples, half of each class")
    add("--classes", type=int, nargs=2, help="labels of the two classes; by default the lowest two")
    add("--sample-seed", type=seed, default=1, help="seed that draws the samples")
    add("--architecture", required=True, help="name written into the table")
    add(
        "--hidden",
        type=hidden_width,
        nargs="+",
        required=True,
        help="widths of the hidden layers; m is the width that varies",
    )
    add("--dense", action="store_true", help="a DenseNet: each layer takes all layers before it")
    add("--activation", required=True, help="name of the activation")
    activation_files_argument(parser)
    add("--widths", type=positive_integer, nargs="+", required=True, help="values of m")
    add("--seeds", type=seed, nargs="+", required=True, help="seeds of the initialisations")
    add("--steps", type=seed, default=100, help="steps of gradient descent")
    add(
        "--rate",
        type=positive_number,
        default=0.5,
        help="learning rate, in units of 1 / lambda_max of the NTK at initialisation",
    )
    add("--outputs", type=Path, nargs="+", required=True, help="a table (.parquet) for each width")
    add("--checkpoints", type=Path, help="folder of widths that are done, to be kept")
    device_argument(parser)
    threads_argument(parser)
    return parser


def hidden_width(text: str) -> int | None:
    """Return a number of neurons, or None for the width that varies.

    >>> hidden_width("1000"), hidden_width("m")
    (1000, None)
    """
    return None if text == "m" else positive_integer(text)


def each_width(
    args: argparse.Namespace, table: Table, *, program: str
) -> Iterator[tuple[dict[str, Any], Iterator[Network], list[dict[str, Any]]]]:
    """Yield, for each width that is not kept, the columns that name it, its networks and its rows.

    The rows, to which the caller adds, are written when it asks for the next width.

    Raises:
        UsageError: if there is not an output for each width.
        SubsetError: if the dataset has not so many samples of the classes.
    """
    if len(args.outputs) != len(args.widths):
        raise UsageError(f"{len(args.outputs)} outputs for {len(args.widths)} widths; give as many")
    limit_threads(args.threads)
    load_activation_files(args)
    device = torch_device(args)
    samples = two_classes(args)
    kept = Checkpoints(args, program=program) if args.checkpoints else None
    log.info(
        "device %s, float64, %d samples of %d features, %d seeds",
        device.type,
        *samples.x.shape,
        len(args.seeds),
    )
    for width, output in zip(args.widths, args.outputs, strict=True):
        checkpoint = kept and kept.path(
            args.data, place=f"width-{width}", width=width, seeds=args.seeds
        )
        if checkpoint and is_kept(checkpoint, table):
            place(checkpoint, output)
            log.info("width %d: kept", width)
            continue
        hidden = [m or width for m in args.hidden]
        name = {
            "dataset": args.dataset,
            "architecture": args.architecture,
            "hidden": "-".join(map(str, hidden)),
            "activation": args.activation,
            "width": width,
        }
        rows: list[dict[str, Any]] = []
        yield name, _networks(args, samples, hidden, device), rows
        data = tables.from_rows(table, rows)
        tables.write(checkpoint or output, table, data)
        if checkpoint:
            forget_others(checkpoint)
            place(checkpoint, output)
        log.info("width %d: computed", width)


def _networks(
    args: argparse.Namespace, samples: Samples, hidden: list[int], device: torch.device
) -> Iterator[Network]:
    for number in args.seeds:
        assembly = draw_assembly(
            samples.x.shape[1],
            hidden,
            activation=args.activation,
            generator=generator(number, "init"),
            dense=args.dense,
        )
        assembly, x = on_span(assembly, samples.x)
        moved = assembly.with_weights([weight.to(device) for weight in assembly.weights])
        yield Network(moved, Samples(x.to(device), samples.y.to(device)), number)


def two_classes(args: argparse.Namespace) -> Samples:
    """Return the study's samples, as many of each of two classes.

    Raises:
        SubsetError: if the dataset has no labels, or not so many samples of the classes.
    """
    data = load_prepared(args.data, hint=HOW_TO_PREPARE)
    if data.y is None:
        raise SubsetError(f"{args.data} has no labels, and the study needs two classes")
    known = np.unique(data.y)
    classes = args.classes or known[:2].tolist()
    missing = sorted(set(classes) - set(known.tolist()))
    if missing or len(set(classes)) < 2:
        raise SubsetError(
            f"{args.data}: classes {classes} are not two of its labels, which are "
            f"{known[0]} to {known[-1]}; correct --classes"
        )
    of_two = np.flatnonzero(np.isin(data.y, classes))
    labels = data.y[of_two]
    stream = seed_stream(args.sample_seed)
    rows = draw(args.dataset, len(of_two), args.samples, generator=stream, classes=labels)
    y = np.where(labels[rows] == classes[0], -1.0, 1.0)
    return Samples(torch.from_numpy(data.x[of_two[rows]]), torch.from_numpy(y))
