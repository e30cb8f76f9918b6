"""Checkpoints of a training: states from which a job that was stopped goes on.

Each is a NumPy archive, written whole or not at all, whose name has a digest of what it depends on:
one from other code, settings, data or libraries is not used. Two are kept, so that there is a
second if the newest cannot be read, and none when the training's output is complete. States follow
from what they depend on alone, so that two jobs of the same training may even take turns with each
other's.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ntk_conditioning.data.archives import ContentError, FormatError, load_arrays
from ntk_conditioning.files import MissingFileError, atomic
from ntk_conditioning.training.trainer import StateError, Training
from ntk_workflow.cli import logger

log = logger(__file__)

KEPT = 2

#: Why a checkpoint cannot be used.
UNUSABLE = (FormatError, ContentError, MissingFileError, StateError)


class TrainingCheckpoints:
    """The checkpoints of one training, in a ``folder`` of its own.

    They are written every so many ``minutes``; ``depends_on`` has all that the training depends on.
    """

    def __init__(self, folder: Path, depends_on: Mapping[str, Any], *, minutes: float) -> None:
        self.minutes, self._folder = minutes, folder
        text = json.dumps(depends_on, sort_keys=True)
        self._digest = hashlib.sha256(text.encode()).hexdigest()[:16]

    def save(self, ensemble: Training) -> bool:
        """Write the state of an ensemble and delete all but the newest of this training's.

        Return whether that was possible: a disk may be full, or another job may have finished this
        training and deleted its checkpoints, and neither is a reason to stop.
        """
        state = ensemble.state()
        # with leading zeros, so that names sort as numbers do
        progress = f"{ensemble.epoch:06d}-{int(state['steps'].sum()):09d}"
        path = self._folder / f"{self._digest}-{progress}.npz"
        try:
            with atomic(path) as temporary, temporary.open("xb") as stream:
                np.savez(stream, allow_pickle=False, **state)
        except OSError as error:
            log.info("no checkpoint could be written: %s", error)
            return False
        for old in self._usable()[KEPT:]:
            old.unlink(missing_ok=True)
        return True

    def restore(self, ensemble: Training) -> bool:
        """Let an ensemble go on from the newest state that can be read; return whether it does."""
        names, usable = list(ensemble.state()), self._usable()
        for path in usable:
            try:
                ensemble.restore(load_arrays(path, required=names))
            except UNUSABLE as error:
                log.info("a checkpoint is not used: %s", error)
                continue
            return True
        if any(self._folder.glob("[!.]*.npz")):  # what is being written begins with a dot
            log.info("no checkpoint of these settings, data and code: training starts afresh")
        return False

    def forget(self) -> None:
        """Delete all checkpoints of this network, also those of other options or half written."""
        for path in self._folder.glob("*.npz"):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # there is none, or another job has just begun to use it
            self._folder.rmdir()

    def _usable(self) -> list[Path]:
        """Return the checkpoints of this training, the one that is furthest first."""
        return sorted(self._folder.glob(f"{self._digest}-*.npz"), reverse=True)
