"""The loop over epochs: progress, checkpoints, and an orderly end when a signal asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import numpy as np
from torch.backends import cudnn

from ntk_conditioning.networks.gradient_tiles import full_precision
from ntk_conditioning.training.trainer import Training
from ntk_workflow.checkpoints.interruption import Interruption
from ntk_workflow.checkpoints.trainings import TrainingCheckpoints
from ntk_workflow.cli import limit_threads, logger
from ntk_workflow.progress import progress

log = logger(__file__)


def train(
    ensemble: Training[Any],
    checkpoints: TrainingCheckpoints | None,
    *,
    threads: int,
    tf32: bool = False,
) -> int | None:
    """Train to the end and return None, or the number of the signal that stopped it."""
    if checkpoints and checkpoints.restore(ensemble):
        log.info("going on from a checkpoint in epoch %d", ensemble.epoch)
    kept = False
    total, done = ensemble.course.epochs, max(0, ensemble.epoch - 1)
    bar = progress(total=total, done=done, unit="epoch", log=log)
    every = 60 * checkpoints.settings.checkpoint_minutes if checkpoints else float("inf")
    epochs = checkpoints and checkpoints.settings.checkpoint_epochs
    with (
        full_precision(tf32=tf32),
        # cuDNN's fastest convolutions do not sum in a fixed order.
        cudnn.flags(deterministic=True, benchmark=False, allow_tf32=tf32),
        Interruption(every=every) as interruption,
        ThreadPoolExecutor(threads, initializer=limit_threads, initargs=(1,)) as pool,
    ):
        while not ensemble.finished:
            whole = ensemble.advance(interruption.wanted, partial(_spread, pool))
            if whole:
                tell_divergence(ensemble)
                bar.set_postfix_str(f"lowest loss {lowest_loss(ensemble):.4g}", refresh=False)
                bar.update(ensemble.epoch - 1 - bar.n)
            # Asked once: a signal that comes after this is one for the next turn.
            stop = interruption.signal
            due = stop is not None or interruption.wanted()
            due |= bool(whole and epochs and ensemble.epoch % epochs == 0)
            if checkpoints and due:
                start = time.monotonic()
                kept = checkpoints.save(ensemble)
                interruption.saved(time.monotonic() - start)
            if stop is not None:
                bar.close()
                log.info(
                    "stopped by a signal in epoch %d; %s",
                    ensemble.epoch,
                    "call again to go on" if kept else "nothing is kept",
                )
                return stop
    bar.close()
    return None


def _spread(
    pool: ThreadPoolExecutor, function: Callable[[Any], bool], items: Iterable[Any]
) -> list[bool]:
    """Return a function's values for all items, computed by a pool of threads.

    The main thread does not wait for long at a time: a signal that comes just before it waits is
    otherwise not handled until a thread is done.
    """
    futures = [pool.submit(function, item) for item in items]
    while wait(futures, timeout=1).not_done:
        pass
    return [future.result() for future in futures]


def tell_divergence(ensemble: Training[Any]) -> None:
    """Log the networks that have just diverged."""
    for number in np.flatnonzero(ensemble.diverged == ensemble.epoch - 1):
        member = ensemble.members[number]
        log.info(
            "seed %d, rate %g: diverged by epoch %d", member.seed, member.rate, ensemble.epoch - 1
        )


def lowest_loss(ensemble: Training[Any]) -> float:
    """Return the lowest training loss of the last epoch that was evaluated."""
    known = ensemble.metrics["train_loss"]
    last = known[np.isfinite(known).any(axis=1)]
    return float(np.nanmin(last[-1])) if len(last) else float("nan")
