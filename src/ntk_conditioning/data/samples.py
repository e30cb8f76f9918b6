"""Features and labels as a source has them, and what every dataset must fulfil."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError


class DimensionError(UserError):
    """The features are not an array of samples by features."""


class NotNumericError(UserError):
    """The features are of a type that cannot be computed with."""


class TooFewSamplesError(UserError):
    """A dataset needs at least two samples."""


class NotFiniteError(UserError):
    """A feature is not a number, infinite, or becomes so by scaling."""


class ValueRangeError(UserError):
    """A feature lies outside the range that it is said to have."""


class LabelError(UserError):
    """The labels are not one whole number or text per sample."""


@dataclass(frozen=True)
class RawSamples:
    """Features and labels as a reader found them, before any check.

    Errors count rows and columns from 0.

    Attributes:
        x: (n, ...) features of any type; samples along the first axis.
        y: labels, whole numbers or texts, to be (n,); None without labels.
        x_source: what errors call the features, a file for instance.
        y_source: what errors call the labels.
        columns: names of a table's feature columns.
    """

    x: NDArray[Any]
    y: NDArray[Any] | None
    x_source: str
    y_source: str
    columns: Sequence[str] | None = None

    def features(self, value_range: tuple[float, float] | None = None) -> NDArray[Any]:
        """Return the features as (n, d), in their own type; samples with more axes are flattened.

        Raises:
            NotNumericError: if they are not real numbers of at most 64 bits.
            DimensionError: if they have fewer than two axes, or no feature.
            TooFewSamplesError: if there are fewer than two samples.
            NotFiniteError: if a value is not finite.
            ValueRangeError: if a value is outside ``value_range``.
        """
        x, source = self.x, self.x_source
        if x.dtype.kind not in "biuf" or x.dtype.itemsize > 8:
            raise NotNumericError(f"{source} holds {x.dtype}; features must be integers or floats")
        if x.ndim < 2 or 0 in x.shape[1:]:
            raise DimensionError(
                f"{source} has shape {x.shape}; it must be (samples, features), or images"
            )
        if len(x) < 2:
            raise TooFewSamplesError(f"{source} has {len(x)} samples; a dataset needs 2 or more")
        dtype = np.dtype(np.uint8) if x.dtype.kind == "b" else x.dtype.newbyteorder("=")
        x = np.ascontiguousarray(x.reshape(len(x), -1), dtype=dtype)
        self._require_finite(x)
        if value_range is not None:
            self._require_range(x, *value_range)
        return x

    def labels(self) -> NDArray[np.int64] | None:
        """Return the labels (n,), if there are any; texts are numbered in sorted order.

        Raises:
            LabelError: if they are neither integers nor texts, have several axes, or are not as
                many as the samples.
        """
        y, source = self.y, self.y_source
        if y is None:
            return None
        if y.dtype.kind not in "biuU":
            raise LabelError(f"{source} holds {y.dtype}; labels must be integers or texts")
        if y.ndim != 1:
            raise LabelError(f"{source} has shape {y.shape}; labels must be (samples,)")
        if len(y) != len(self.x):
            raise LabelError(
                f"{source} has {len(y)} labels, but {self.x_source} has {len(self.x)} samples; "
                "take both from the same dataset"
            )
        if y.dtype.kind == "U":
            y = np.unique(y, return_inverse=True)[1]
        return y.astype(np.int64)

    def _require_finite(self, x: NDArray[Any]) -> None:
        if x.dtype.kind != "f":
            return
        wrong = ~np.isfinite(x)
        if wrong.any():
            raise NotFiniteError(
                f"{self._first(x, wrong)}, one of {wrong.sum()} values that are not finite; "
                "correct them or remove their rows"
            )

    def _require_range(self, x: NDArray[Any], low: float, high: float) -> None:
        # Compared in the type of x, so that 0.3 in single precision is not above 0.3.
        with np.errstate(over="ignore"):
            if not (x.min() < low or x.max() > high):
                return  # without a mask of the size of x
            outside = (x < low) | (x > high)
        if outside.any():
            raise ValueRangeError(
                f"{self._first(x, outside)}, outside value_range [{low:g}, {high:g}]; the values "
                f"lie in [{float(x.min()):g}, {float(x.max()):g}]: correct either"
            )

    def _first(self, x: NDArray[Any], wrong: NDArray[np.bool_]) -> str:
        row, column = np.argwhere(wrong)[0]
        name = int(column) if self.columns is None else repr(self.columns[column])
        return f"{self.x_source}: row {row}, column {name} is {x[row, column]}"
