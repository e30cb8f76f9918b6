"""Checked samples: stored as their source has them, and scaled when they are loaded.

Apart from `datasets`, so that a computation depends on this module but on no reader.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.archives import ContentError, load_arrays
from ntk_conditioning.files import atomic

Scaling = Literal["none", "unit_interval", "symmetric", "unit_norm", "standardize"]


@dataclass(frozen=True)
class PreparedSamples:
    """Checked samples of a dataset.

    ``x`` (n, d) has its source's type until it is scaled, then float64; ``y`` (n,) are labels.
    ``scaling`` is still to be done; ``value_range`` is the range of ``x``, if it needs that.
    """

    name: str
    x: NDArray[Any]
    y: NDArray[np.int64] | None
    scaling: Scaling = "none"
    value_range: tuple[float, float] | None = None

    def rows(self, chosen: NDArray[Any]) -> PreparedSamples:
        """Return some of the samples, by their rows or by a mask (n,)."""
        return replace(self, x=self.x[chosen], y=None if self.y is None else self.y[chosen])

    @property
    def about(self) -> str:
        """Name, scaling and value range in JSON."""
        facts = {"name": self.name, "scaling": self.scaling, "value_range": self.value_range}
        return json.dumps(facts)


def scaled(samples: PreparedSamples, *, like: PreparedSamples | None = None) -> NDArray[np.float64]:
    """Return the scaled features (n, d) in float64.

    With the value range [lo, hi]: ``unit_interval`` is (x - lo) / (hi - lo), ``symmetric`` is
    (x - lo) / (hi - lo) * 2 - 1. ``unit_norm`` divides each row by its Euclidean norm.
    ``standardize`` gives each column mean 0 and variance 1 over the rows at hand, or over those of
    ``like``, the training part of a test part; a column that is constant up to rounding, as
    scikit-learn's StandardScaler has it, becomes 0.

    Raises `ContentError` if a row is zero, a value is too large to be scaled in float64, or the
    scaling is unknown or lacks its value range.

    >>> x = np.array([[0, 255], [255, 51]], dtype=np.uint8)
    >>> scaled(PreparedSamples("two", x, None, "symmetric", (0.0, 255.0))).tolist()
    [[-1.0, 1.0], [1.0, -0.6]]
    """
    x = samples.x.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # found below, with the place
        match samples.scaling, samples.value_range:
            case "unit_interval", (low, high):
                x = (x - low) / (high - low)
            case "symmetric", (low, high):
                x = (x - low) / (high - low) * 2 - 1
            case "unit_norm", _:
                largest = np.abs(x).max(axis=1, keepdims=True)  # squares could leave the range
                largest[largest == 0] = 1
                x /= largest
                norms = np.linalg.norm(x, axis=1, keepdims=True)
                x /= np.where(norms > 0, norms, 1)
            case "standardize", _:
                known = x if like is None else like.x.astype(np.float64)
                mean = known.mean(axis=0)
                largest = np.abs(known - mean).max(axis=0)  # as unit_norm
                largest[largest == 0] = 1
                spread = np.sqrt(np.mean(((known - mean) / largest) ** 2, axis=0))
                constant = largest * spread <= len(known) * np.finfo(float).eps * np.abs(mean)
                spread[constant] = largest[constant] = np.inf
                x = (x - mean) / largest / spread
            case "none", _:
                pass
            case scaling, _:
                raise ContentError(f"{samples.name}: scaling {scaling} is unknown or has no range")
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        raise ContentError(
            f"{samples.name}: row {row}, column {column} is {x[row, column]} after scaling "
            f"{samples.scaling}; bring the values into a smaller range"
        )
    if len(zero := np.flatnonzero(~x.any(axis=1))):
        raise ContentError(
            f"{samples.name}: {len(zero)} samples are zero after scaling {samples.scaling}, the "
            f"first in row {zero[0]}; they have no direction: remove them or scale otherwise"
        )
    return x


def save_prepared(path: Path, samples: PreparedSamples) -> None:
    """Write a dataset as a NumPy archive, atomically; equal datasets give equal bytes.

    It is not compressed, as zlib's versions differ in their bytes.
    """
    labels = {} if samples.y is None else {"y": samples.y}
    with atomic(path) as temporary, temporary.open("xb") as stream:
        np.savez(stream, allow_pickle=False, about=np.array(samples.about), x=samples.x, **labels)


def load_prepared(path: Path, *, like: Path | None = None) -> PreparedSamples:
    """Return the samples that `save_prepared` wrote, scaled in float64.

    ``like`` is the training part of a test part, see `scaled`. Raises `MissingFileError`,
    `FormatError` if the file is damaged, and `ContentError` if it is another archive, has other
    features than ``like``, or as `scaled`.
    """
    samples = _load(path)
    known = None if like is None else _load(like)
    if known is not None and known.x.shape[1] != samples.x.shape[1]:
        raise ContentError(
            f"{path} has {samples.x.shape[1]} features and {like} has {known.x.shape[1]}; take "
            "both from the same dataset"
        )
    return PreparedSamples(samples.name, scaled(samples, like=known), samples.y)


def _load(path: Path) -> PreparedSamples:
    try:
        arrays = load_arrays(path, required=["about", "x"], optional=["y"])
        about = json.loads(str(arrays["about"]))
        return PreparedSamples(x=arrays["x"], y=arrays.get("y"), **about)
    except (ContentError, json.JSONDecodeError, TypeError):
        raise ContentError(
            f"{path} is no prepared dataset; save_prepared writes one, as the workflow does for "
            "every dataset of a config"
        ) from None


def content_digest(samples: PreparedSamples) -> str:
    """Return the sha256 of the arrays, with their types and shapes, and of what scales them."""
    digest = hashlib.sha256(samples.about.encode())
    for array in (samples.x, samples.y):
        if array is None:
            digest.update(b"none")
        else:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()
