"""Checkpoints of a training: states from which a job that was stopped goes on.

Each is a NumPy archive, written whole or not at all, that names what it depends on: one from other
code, options, data or libraries is not used. Two are kept, so that there is a second if the newest
cannot be read, and none when the training's output is complete. States follow from what they depend
on alone, so that two jobs of the same training may even take turns with each other's.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ntk_conditioning.data.archives import ContentError, FormatError, load_arrays
from ntk_conditioning.files import MissingFileError, atomic
from ntk_conditioning.training.trainer import StateError, Training
from ntk_workflow.checkpoints.origin import origin_digest
from ntk_workflow.cli import logger, positive_integer, positive_number
from ntk_workflow.settings import option

log = logger(__file__)

KEPT = 2

#: Why a checkpoint cannot be used.
UNUSABLE = (FormatError, ContentError, MissingFileError, StateError, json.JSONDecodeError)


@dataclass(frozen=True, kw_only=True)
class CheckpointSettings:
    """Where and how often a training's state is saved."""

    checkpoints: Path | None = option(
        "folder for checkpoints; without one none are made", type=Path, default=None
    )
    checkpoint_minutes: float = option("between checkpoints", type=positive_number, default=5.0)
    checkpoint_epochs: int | None = option(
        "between checkpoints", type=positive_integer, default=None
    )


class TrainingCheckpoints:
    """The checkpoints of one training, in a ``folder`` of its own.

    ``origin`` is what the training depends on.
    """

    def __init__(
        self, folder: Path, settings: CheckpointSettings, origin: Mapping[str, Any]
    ) -> None:
        self.settings = settings
        self._folder, self._origin = folder, json.dumps(origin)
        self._digest = origin_digest(origin)

    def save(self, ensemble: Training) -> bool:
        """Write the state of an ensemble and delete all but the newest of this training's.

        Return whether that was possible: a disk may be full, or another job may have finished this
        training and deleted its checkpoints, and neither is a reason to stop.
        """
        state = ensemble.state()
        progress = f"{ensemble.epoch:06d}-{int(state['steps'].sum()):09d}"
        path = self._folder / f"{self._digest}-{progress}.npz"
        try:
            with atomic(path) as temporary, temporary.open("xb") as stream:
                np.savez(stream, allow_pickle=False, origin=np.array(self._origin), **state)
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
        # The name of what is being written begins with a dot.
        others = {*self._folder.glob("[!.]*.npz")} - {*usable}
        with suppress(FileNotFoundError):  # another job has just deleted one
            if newest := max(others, key=lambda path: path.stat().st_mtime, default=None):
                reason = self._reason(newest)
                log.info("checkpoints are not used, training starts afresh: %s", reason)
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

    def _reason(self, path: Path) -> str:
        """Return what a checkpoint depends on that is different here."""
        try:
            then = json.loads(str(load_arrays(path, required=["origin"])["origin"]))
        except UNUSABLE as error:
            return str(error)
        now = json.loads(self._origin)
        reasons = [_difference(name, then.get(name), value) for name, value in now.items()]
        return f"{path.name} was made with other {', other '.join(filter(None, reasons))}"


def _difference(name: str, then: Any, now: Any) -> str | None:
    if then == now:
        return None
    if not isinstance(now, dict) or not isinstance(then, dict):
        return name
    parts = sorted(key for key in {*then, *now} if then.get(key) != now.get(key))
    return f"{name} ({', '.join(parts)})"
