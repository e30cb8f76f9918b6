"""What checkpoints cost a training: the time of one, and their share of the time."""

import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

from ntk_conditioning.training.mlp_ensemble import Ensemble
from ntk_conditioning.training.trainer import Training
from ntk_workflow.trainings import loop


class _EnoughError(Exception):
    """As many checkpoints as were asked for are made."""


class Watched(loop.TrainingCheckpoint):
    """Checkpoints in a folder that note when and how long they are saved.

    After so many of them the training is left.
    """

    def __init__(self, folder: Path, *, most: int) -> None:
        super().__init__(folder, {})
        self._most = most
        self.saves: list[tuple[float, float]] = []

    def save(self, ensemble: Training) -> None:
        start = time.perf_counter()
        super().save(ensemble)
        self.saves.append((start, time.perf_counter() - start))
        if len(self.saves) == self._most:
            raise _EnoughError


def save_seconds(ensemble: Ensemble, folder: Path, *, rounds: int) -> tuple[list[float], int]:
    """Return the seconds of each checkpoint of an ensemble, and the bytes of one."""
    checkpoints = Watched(folder, most=0)
    for _ in range(rounds):
        checkpoints.save(ensemble)
    size = max(path.stat().st_size for path in folder.iterdir())
    return [seconds for _, seconds in checkpoints.saves], size


def train_until_saved(
    ensemble: Ensemble, folder: Path, *, threads: int, saves: int
) -> list[tuple[float, float]]:
    """Return when checkpoints begin and what they take, of a training with the shortest interval.

    The first is made at once. Then the rule for long savings is what decides when the next is due,
    which otherwise it does only where one takes more than three seconds.
    """
    checkpoints = Watched(folder, most=saves)
    with suppress(_EnoughError), patch.object(loop, "SECONDS", 1e-9):
        loop.train(ensemble, checkpoints, threads=threads)
    return checkpoints.saves


def shares(saves: Sequence[tuple[float, float]]) -> list[float]:
    """Return the share that each checkpoint has of the time until the next one begins.

    >>> shares([(0.0, 1.0), (100.0, 2.0), (300.0, 2.0)])
    [0.01, 0.01]
    """
    return [seconds / (after - start) for (start, seconds), (after, _) in pairwise(saves)]
