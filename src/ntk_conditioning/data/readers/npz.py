"""NumPy archives of one's own, and those that this project's feature extraction writes."""

from __future__ import annotations

from pathlib import Path

from ntk_conditioning.data.archives import load_arrays
from ntk_conditioning.data.samples import RawSamples

IF_PRESENT = "y, if there is one"  # the labels of `read_npz` when nothing is said


def read_npz(x: Path, *, features: str = "x", labels: str | None = IF_PRESENT) -> RawSamples:
    """Return the named arrays of a NumPy archive; ``labels=None`` reads none.

    Raises:
        UserError: as `load_arrays`.
    """
    if labels == IF_PRESENT:
        arrays = load_arrays(x, required=[features], optional=["y"])
        labels = "y"
    else:
        arrays = load_arrays(x, required=[features] if labels is None else [features, labels])
    y = None if labels is None else arrays.get(labels)
    return RawSamples(arrays[features], y, f"{x} ({features})", f"{x} ({labels})")


def read_features(features: Path) -> RawSamples:
    """Return the arrays ``x`` and ``y`` of a NumPy archive of extracted features.

    Raises:
        UserError: as `load_arrays`, also if there are no labels.
    """
    return read_npz(features, labels="y")
