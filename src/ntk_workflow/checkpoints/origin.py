"""What a checkpoint depends on, so that one from other code, options or libraries is not used."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import ntk_conditioning
from ntk_workflow.provenance.digests import source_digest

#: Libraries whose version may change a result.
LIBRARIES = ("numpy", "pyarrow", "scipy", "torch")


def origin(program: str, plugins: Sequence[Path], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what all checkpoints of a call depend on, but for its data.

    That is the ``program`` (its file) with all that it imports, the ``plugins`` (files that
    register activations), the ``options`` and the versions of the libraries.
    """
    source = Path(ntk_conditioning.__file__).parents[1]
    return {
        "code": source_digest(program, *plugins, source=source),
        "options": dict(options),
        "versions": {library: metadata.version(library) for library in LIBRARIES},
    }


def origin_digest(values: Mapping[str, Any]) -> str:
    """Return a digest of what a checkpoint depends on, for its name."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
