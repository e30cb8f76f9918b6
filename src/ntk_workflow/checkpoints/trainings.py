"""Checkpoints of a training: states from which a job that was stopped goes on.

Each is a NumPy archive, written whole or not at all, that names what it depends on: one from other
code, options, data or libraries is not used. Two are kept, so that there is a second if the newest
cannot be read, and none when the training's output is complete. States follow from what they depend
on alone, so that two jobs of the same training may even take turns with each other's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import ntk_conditioning
from ntk_conditioning.data.archives import ContentError, FormatError, load_arrays
from ntk_conditioning.files import MissingFileError, atomic, sha256
from ntk_conditioning.training import StateError, Training
from ntk_workflow.checkpoints.cells import LIBRARIES
from ntk_workflow.cli import logger
from ntk_workflow.provenance.digests import source_digest

log = logger(__file__)

KEPT = 2

#: What is whole; the temporary names of what is being written begin with a dot.
NAMED = "[!.]*.npz"

#: Arguments that cannot change the result, or that enter by what is in the files.
APART = (
    "activation_file",
    "checkpoint_epochs",
    "checkpoint_minutes",
    "checkpoints",
    "data",
    "kernel",
    "output",
    "test",
    "threads",
)


class TrainingCheckpoints:
    """The checkpoints of one call of a program, in a folder of its own."""

    def __init__(self, args: argparse.Namespace, *, program: str) -> None:
        source = Path(ntk_conditioning.__file__).parents[1]
        files = {name: getattr(args, name) for name in ("data", "test", "kernel")}
        self._folder = Path(args.checkpoints)
        self._origin = {
            "code": source_digest(program, *args.activation_file, source=source),
            "options": {name: value for name, value in vars(args).items() if name not in APART},
            "versions": {library: metadata.version(library) for library in LIBRARIES},
            "files": {name: sha256(path) for name, path in files.items() if path is not None},
        }
        text = json.dumps(self._origin, sort_keys=True)
        self._digest = hashlib.sha256(text.encode()).hexdigest()[:16]

    def save(self, ensemble: Training[Any]) -> bool:
        """Write the state of an ensemble and delete all but the newest of this training's.

        Return whether that was possible: a disk may be full, or another job may have finished this
        training and deleted its checkpoints, and neither is a reason to stop.
        """
        state = ensemble.state()
        progress = f"{ensemble.epoch:06d}-{int(state['steps'].sum()):09d}"
        path = self._folder / f"{self._digest}-{progress}.npz"
        arrays = {"origin": np.array(json.dumps(self._origin)), **state}
        try:
            with atomic(path) as temporary, temporary.open("xb") as stream:
                np.savez(stream, allow_pickle=False, **arrays)
        except OSError as error:
            log.info("no checkpoint could be written: %s", error)
            return False
        for old in self._own()[KEPT:]:
            old.unlink(missing_ok=True)
        return True

    def restore(self, ensemble: Training[Any]) -> bool:
        """Let an ensemble go on from the newest state that can be read; return whether it does."""
        names = list(ensemble.state())
        for path in self._own():
            try:
                ensemble.restore(load_arrays(path, required=names))
            except (FormatError, ContentError, MissingFileError, StateError) as error:
                log.info("a checkpoint is not used: %s", error)
                continue
            return True
        others = [path for path in self._folder.glob(NAMED) if path not in self._own()]
        if others:
            newest = max(others, key=_modified)
            log.info("checkpoints are not used, training starts afresh: %s", self._reason(newest))
        return False

    def forget(self) -> None:
        """Delete all checkpoints of this network, also those of other options or half written."""
        for path in self._folder.glob("*.npz"):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # there is none, or another job has just begun to use it
            self._folder.rmdir()

    def _own(self) -> list[Path]:
        """Return the checkpoints of this training, the one that is furthest first."""
        return sorted(self._folder.glob(f"{self._digest}-*.npz"), reverse=True)

    def _reason(self, path: Path) -> str:
        """Return what a checkpoint depends on that is different here."""
        try:
            origin = json.loads(str(load_arrays(path, required=["origin"])["origin"]))
        except (FormatError, ContentError, MissingFileError, json.JSONDecodeError) as error:
            return str(error)
        reasons = [
            _difference(name, origin.get(name), value) for name, value in self._origin.items()
        ]
        return f"{path.name} was made with other {', other '.join(filter(None, reasons))}"


def _modified(path: Path) -> float:
    """Return the time of a file's last change, or 0 if another job has just deleted it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _difference(name: str, then: Any, now: Any) -> str | None:
    """Return the name of what differs, with its parts where it has some."""
    now = json.loads(json.dumps(now))
    if then == now:
        return None
    if not isinstance(now, Mapping) or not isinstance(then, Mapping):
        return name
    parts = sorted(key for key in {*then, *now} if then.get(key) != now.get(key))
    return f"{name} ({', '.join(parts)})"
