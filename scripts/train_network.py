"""Train the networks of an architecture, all learning rates and seeds, as one ensemble.

Critical rates are those of the NTK with which a network's training begins.

Several architectures are trained one after the other if each has its options after a --network of
its own; what comes before the first is for all of them.

A job that is killed goes on from its last checkpoint when it is called again, with the same result
to the byte; one that is asked to stop (SIGTERM, Ctrl-C) leaves a checkpoint at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ntk_conditioning import tables
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import sha256
from ntk_conditioning.networks.own import OwnModel
from ntk_conditioning.training.measured import Measured
from ntk_workflow.checkpoints.origin import origin
from ntk_workflow.checkpoints.trainings import CheckpointSettings, TrainingCheckpoints
from ntk_workflow.cli import Argv, UsageError, limit_threads, run_main
from ntk_workflow.cli_activations import load_activation_files
from ntk_workflow.cli_networks import load_own_network
from ntk_workflow.devices import device_argument, torch_device
from ntk_workflow.settings import add_arguments, from_mapping
from ntk_workflow.training_room import telling_what_fits
from ntk_workflow.trainings import networks
from ntk_workflow.trainings.data import LabelledSamples, labelled_samples
from ntk_workflow.trainings.initial_kernels import initial_kernel_rows
from ntk_workflow.trainings.loop import train
from ntk_workflow.trainings.settings import (
    InitialSettings,
    Point,
    Rates,
    TrainingSettings,
    training_parser,
)

NETWORK = "--network"
#: What several networks have in common.
COMMON = (
    *("data", "test", "experiment", "dataset", "device", "products", "threads"),
    *("output", "initial_kernels_output", "kernels_output"),
)

Rows = list[dict[str, Any]]


@run_main
def main(argv: Argv = None) -> int:
    calls = [parse(words) for words in by_network(sys.argv[1:] if argv is None else argv)]
    args = calls[0]
    for name in COMMON:
        if any(vars(call)[name] != vars(args)[name] for call in calls):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is for all networks; give it before the first {NETWORK}")
    device = torch_device(args.device)
    for call in calls:
        call.device = device.type
    limit_threads(1)  # of a network; several are trained side by side
    files = {name: sha256(path) for name in ("data", "test") if (path := getattr(args, name))}
    read = cache(labelled_samples)
    every: list[Networks] = []  # all of them before the first is trained
    for call in calls:
        try:
            every.append(Networks.from_arguments(call, device, files, read))
        except UserError as error:
            if len(calls) == 1:
                raise
            which = f"{call.model}, {call.activation}, depth {call.depth}"
            raise UsageError(f"{which}: {error}") from error
    in_turn: list[tuple[Networks, TrainingSettings, Rates]] = []
    initial: Rows = []
    for each in every:
        with each.telling_what_fits():
            kernels = each.initial_kernels()
        critical = {row["seed"]: row["critical_learning_rate"] for row in kernels}
        in_turn += [(each, turn, turn.absolute_rates(critical)) for turn in each.turns]
        initial += [row for row in kernels if row["seed"] in each.settings.seeds]
    rows: Rows = []
    along: Rows = []
    finished: list[TrainingCheckpoints] = []
    for each, turn, rates in in_turn:
        with each.telling_what_fits():
            ensemble, checkpoints = each.make(turn, rates)
            stopped = train(ensemble, checkpoints, threads=args.threads, tf32=turn.tf32)
            if stopped is not None:
                return 128 + stopped
            if checkpoints and turn is not in_turn[-1][1]:
                checkpoints.save(ensemble)  # only its metrics: others have their turn
            of = (each.point, turn, each.samples, rates, ensemble)
            rows += networks.ensemble_rows(*of)
            along += networks.kernel_rows(*of)
            finished += [checkpoints] if checkpoints else []
            del ensemble, of
    for path, table, found in (
        (args.output, tables.get("training"), rows),
        (args.initial_kernels_output, tables.get("training_kernels"), initial),
        (args.kernels_output, tables.get("kernels_along_training"), along),
    ):
        if path:
            tables.write(path, table, tables.from_rows(table, found))
    for checkpoints in finished:
        checkpoints.forget()
    return 0


@dataclass(frozen=True, eq=False)
class Networks:
    """Networks of one architecture, and the ``turns`` in which their seeds are trained."""

    args: argparse.Namespace
    device: torch.device
    files: Mapping[str, str]
    own: OwnModel | None
    point: Point
    settings: TrainingSettings
    samples: LabelledSamples
    turns: Sequence[TrainingSettings]

    @classmethod
    def from_arguments(
        cls,
        args: argparse.Namespace,
        device: torch.device,
        files: Mapping[str, str],
        read: Callable[..., LabelledSamples],
    ) -> Networks:
        """Return the networks that arguments describe, with digests of their ``files``.

        Raises `UserError` if there are no such networks.
        """
        if bool(args.kernels_along) != bool(args.kernels_output):
            remedy = "need each other; give both or none"
            raise UsageError(f"--kernels-along and --kernels-output {remedy}")
        load_activation_files(args.activation_file)
        own = load_own_network(args)
        point = from_mapping(Point, vars(args))
        settings = from_mapping(TrainingSettings, vars(args))
        # without what samples do not depend on, so that networks of any size share them
        seeds = tuple(dict.fromkeys([*settings.seeds, *settings.critical_seeds]))
        drawn = from_mapping(
            InitialSettings, vars(args) | {"seeds": seeds, "width": 1, "image": None}
        )
        samples = read(args.data, args.test, point.dataset, drawn)
        turns = networks.turns(point, settings, samples, own)
        return cls(args, device, files, own, point, settings, samples, turns)

    @property
    def products(self) -> str:
        """How products of the networks of mlp are computed."""
        return self.args.products or ("together" if self.device.type == "cuda" else "separate")

    def telling_what_fits(self) -> AbstractContextManager[None]:
        """Return a context in which a lack of memory is told with the width that fits."""
        of = (self.point, self.settings, self.samples, self.device)
        return telling_what_fits(*of, together=self.products == "together")

    def initial_kernels(self) -> Rows:
        """Return the rows of the kernels at initialisation, if their table or rates need them."""
        told = self.args.initial_kernels_output
        told = told and self.settings.has_initial_kernel(self.point.model)
        if not told and self.settings.rate_unit == "one":
            return []
        of = (self.point, self.settings, self.samples, self.own)
        return [*initial_kernel_rows(*of)]

    def make(
        self, turn: TrainingSettings, rates: Rates
    ) -> tuple[Measured, TrainingCheckpoints | None]:
        """Return a turn's networks at initialisation, and their checkpoints if any are kept."""
        how: Any = {"device": self.device, "products": self.products, "own": self.own}
        ensemble = networks.make_ensemble(self.point, turn, self.samples, rates, **how)
        args, saving = self.args, from_mapping(CheckpointSettings, vars(self.args))
        if not (folder := saving.checkpoints):
            return ensemble, None
        folder = folder / f"seed-{turn.seeds[0]}" if len(self.turns) > 1 else folder
        plugins = [*args.activation_file, *([self.own.file] if self.own else [])]
        options = {"device": self.device.type, "products": self.products} | asdict(self.point)
        options |= {"model_function": self.own.function} if self.own else {}
        options |= asdict(turn) | {"rates": [*rates.values()]}
        depends_on = origin(__file__, plugins, options) | {"files": self.files}
        return ensemble, TrainingCheckpoints(folder, saving, depends_on)


def by_network(words: Sequence[str]) -> list[list[str]]:
    """Return the arguments of each network, of which those before the first are all others' too."""
    starts = [number for number, word in enumerate(words) if word == NETWORK]
    if not starts:
        return [[*words]]
    ends = [*starts[1:], len(words)]
    common = words[: starts[0]]
    return [[*common, *words[a + 1 : b]] for a, b in zip(starts, ends, strict=True)]


def parse(argv: Argv) -> argparse.Namespace:
    parser = training_parser(__doc__, Point)
    add = parser.add_argument
    help = "begins the options of one of several networks"
    add(NETWORK, action="store_true", help=help)
    add("--test", type=Path, help="prepared test samples (.npz)")
    help = "table of the NTKs at initialisation (.parquet); of mlp, or with critical --rate-unit"
    add("--initial-kernels-output", type=Path, help=help)
    add("--kernels-output", type=Path, help="table of --kernels-along (.parquet)")
    device_argument(parser)
    help = "of the networks of mlp; by default together on a GPU and separate on a CPU"
    add("--products", choices=["separate", "together"], help=help)
    add_arguments(parser, CheckpointSettings)
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
