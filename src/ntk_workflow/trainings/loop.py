"""The loop over epochs: progress, checkpoints, and an orderly end when a signal asks for it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from torch.backends import cudnn

from ntk_conditioning.networks.gradient_tiles import full_precision
from ntk_conditioning.threads import Team
from ntk_conditioning.training.trainer import Training
from ntk_workflow.checkpoints.trainings import TrainingCheckpoints
from ntk_workflow.cli import logger
from ntk_workflow.progress import progress

log = logger(__file__)

#: A scheduler that ends a job sends the first and waits half a minute; a user's Ctrl-C the second.
SIGNALS = (signal.SIGTERM, signal.SIGINT)

# Saving takes at most one part in so many of the time.
SHARE = 100


class Interruption:
    """Whether training is to pause, a context in which signals to stop are only noted.

    A pause is due ``every`` seconds after the last, or later where saving takes more than a
    hundredth of that time.
    """

    def __init__(self, *, every: float) -> None:
        self._every, self._due = every, time.monotonic() + every
        self.signal: int | None = None

    def __enter__(self) -> Interruption:
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wanted(self) -> bool:
        """Return whether to pause."""
        return self.signal is not None or time.monotonic() >= self._due

    def saved(self, seconds: float) -> None:
        """Say that the state has been saved, and how long that took."""
        self._due = time.monotonic() + max(self._every, SHARE * seconds)

    def _note(self, number: int, _: object) -> None:
        self.signal = number


@contextmanager
def fixed_sums(*, tf32: bool = False) -> Iterator[None]:
    """Let products be summed in the same order in every run, and be rounded to no less than asked.

    cuDNN's fastest convolutions are not; and `cudnn.flags` turns cuDNN off unless told not to.
    """
    flags = {"enabled": True, "deterministic": True, "benchmark": False, "allow_tf32": tf32}
    with full_precision(tf32=tf32), cudnn.flags(**flags):
        yield


def train(
    ensemble: Training, checkpoints: TrainingCheckpoints | None, *, threads: int, tf32: bool = False
) -> int | None:
    """Train to the end and return None, or the number of the signal that stopped it."""
    if checkpoints and checkpoints.restore(ensemble):
        log.info("going on from a checkpoint in epoch %d", ensemble.epoch)
    saved = False
    total, done = ensemble.course.epochs, max(0, ensemble.epoch - 1)
    bar = progress(total=total, done=done, unit="epoch", log=log)
    every = 60 * checkpoints.minutes if checkpoints else float("inf")
    with (
        bar,
        fixed_sums(tf32=tf32),
        Interruption(every=every) as interruption,
        Team(threads) as team,
    ):
        while not ensemble.finished:
            whole = ensemble.advance(interruption.wanted, team)
            epoch = ensemble.epoch
            if whole:
                for number in np.flatnonzero(ensemble.diverged == epoch - 1):
                    seed, rate = ensemble.members[number]
                    log.info("seed %d, rate %g: diverged by epoch %d", seed, rate, epoch - 1)
                bar.set_postfix_str(f"lowest loss {_lowest_loss(ensemble):.4g}", refresh=False)
                bar.update(epoch - 1 - bar.n)
            # Asked once: a signal that comes after this is one for the next seeds.
            stop = interruption.signal
            due = stop is not None or interruption.wanted()
            if checkpoints and due:
                start = time.monotonic()
                saved = checkpoints.save(ensemble)
                interruption.saved(time.monotonic() - start)
            if stop is not None:
                remedy = "call again to go on" if saved else "nothing is kept"
                log.info("stopped by a signal in epoch %d; %s", epoch, remedy)
                return stop
    return None


def _lowest_loss(ensemble: Training) -> float:
    # of the last epoch that was evaluated
    known = ensemble.metrics["train_loss"]
    last = known[np.isfinite(known).any(axis=1)]
    return float(np.nanmin(last[-1])) if len(last) else float("nan")
