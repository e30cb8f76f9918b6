"""The loop over epochs: progress, checkpoints, and an orderly end when a signal asks for it."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from torch.backends import cudnn

from ntk_conditioning.data.archives import ContentError, FormatError, load_arrays
from ntk_conditioning.files import atomic
from ntk_conditioning.networks.gradient_tiles import full_precision
from ntk_conditioning.threads import pool
from ntk_conditioning.training.trainer import Training
from ntk_workflow.cli import log
from ntk_workflow.progress_bars import progress

#: A scheduler that ends a job sends the first and waits half a minute; a user's Ctrl-C the second.
SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: Seconds between checkpoints, if saving takes at most one part in so many of the time.
SECONDS, SHARE = 300.0, 100


@contextmanager
def fixed_sums(*, tf32: bool = False) -> Iterator[None]:
    """Let products be summed in the same order in every run, and be rounded to no less than asked.

    cuDNN's fastest convolutions are not; and `cudnn.flags` turns cuDNN off unless told not to.
    """
    flags = {"enabled": True, "deterministic": True, "benchmark": False, "allow_tf32": tf32}
    with full_precision(tf32=tf32), cudnn.flags(**flags):
        yield


def save(ensemble: Training, checkpoint: Path | None) -> None:
    """Write the state of an ensemble, whole or not at all."""
    if checkpoint:
        with atomic(checkpoint) as temporary, temporary.open("xb") as stream:
            np.savez(stream, allow_pickle=False, **ensemble.state())


def train(
    ensemble: Training, checkpoint: Path | None, *, threads: int, tf32: bool = False
) -> int | None:
    """Train to the end and return None, or the number of the signal that stopped it.

    It goes on from the checkpoint, if that is there. Signals are only noted, and a checkpoint is
    written when one has come or the time has.
    """
    if checkpoint and checkpoint.exists():
        try:
            ensemble.restore(load_arrays(checkpoint, required=[*ensemble.state()]))
            log.info("going on from a checkpoint in epoch %d", ensemble.epoch)
        except (FormatError, ContentError) as error:
            log.info("a checkpoint is not used: %s", error)
    received: list[int] = []
    handlers = {s: signal.signal(s, lambda number, _: received.append(number)) for s in SIGNALS}
    due = time.monotonic() + SECONDS if checkpoint else float("inf")

    def pausing() -> bool:
        return bool(received) or time.monotonic() >= due

    bar = progress(total=ensemble.descent.epochs, initial=max(0, ensemble.epoch - 1), unit="epoch")
    try:
        with bar, fixed_sums(tf32=tf32), pool(threads) as workers:
            while not ensemble.finished:
                if ensemble.advance(pausing, workers):
                    epoch = ensemble.epoch - 1
                    if np.isfinite(losses := ensemble.metrics["train_loss"][epoch]).any():
                        bar.set_postfix_str(f"lowest loss {np.nanmin(losses):.4g}", refresh=False)
                    bar.update(epoch - bar.n)
                stopped = bool(received)
                if pausing():
                    start = time.monotonic()
                    save(ensemble, checkpoint)
                    due = time.monotonic() + max(SECONDS, SHARE * (time.monotonic() - start))
                if stopped:
                    remedy = "call again to go on" if checkpoint else "nothing is kept"
                    log.info("stopped by a signal in epoch %d; %s", ensemble.epoch, remedy)
                    return received[0]
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return None
