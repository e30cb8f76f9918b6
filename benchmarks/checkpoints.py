"""What checkpoints cost a training: the time of one, and their share of the time."""

import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ntk_conditioning.training.mlp_ensemble import Ensemble
from ntk_conditioning.training.trainer import Training
from ntk_workflow.trainings import loop


class _EnoughError(Exception):
    """As many checkpoints as were asked for are made."""


class Watched:
    """Checkpoints in a folder, with when and how long each is saved.

    After so many of them the training is left.
    """

    def __init__(self, folder: Path, *, most: int) -> None:
        self.path, self._most = folder / "checkpoint.npz", most
        self.saves: list[tuple[float, float]] = []

    def save(self, ensemble: Training, checkpoint: Path, *, save: Any = loop.save) -> None:
        start = time.perf_counter()
        save(ensemble, checkpoint)
        self.saves.append((start, time.perf_counter() - start))
        if len(self.saves) == self._most:
            raise _EnoughError


def save_seconds(ensemble: Ensemble, folder: Path, *, rounds: int) -> tuple[list[float], int]:
    """Return the seconds of each checkpoint of an ensemble, and the bytes of one."""
    checkpoints = Watched(folder, most=0)
    for _ in range(rounds):
        checkpoints.save(ensemble, checkpoints.path)
    size = checkpoints.path.stat().st_size
    return [seconds for _, seconds in checkpoints.saves], size


def train_until_saved(
    ensemble: Ensemble, folder: Path, *, threads: int, saves: int
) -> list[tuple[float, float]]:
    """Return when checkpoints begin and what they take, of a training with the shortest interval.

    The first is made at once. Then the rule for long savings is what decides when the next is due,
    which otherwise it does only where one takes more than three seconds.
    """
    checkpoints = Watched(folder, most=saves)
    shortest = patch.multiple(loop, SECONDS=1e-9, save=checkpoints.save)
    with suppress(_EnoughError), shortest:
        loop.train(ensemble, checkpoints.path, threads=threads)
    return checkpoints.saves


def shares(saves: Sequence[tuple[float, float]]) -> list[float]:
    """Return the share that each checkpoint has of the time until the next one begins.

    >>> shares([(0.0, 1.0), (100.0, 2.0), (300.0, 2.0)])
    [0.01, 0.01]
    """
    return [seconds / (after - start) for (start, seconds), (after, _) in pairwise(saves)]
