"""Features and labels as a source has them, and what every dataset must fulfil."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.archives import ContentError


@dataclass(frozen=True)
class RawSamples:
    """Features (n, ...) and labels, to be (n,), as a reader gives them, of any type.

    Errors count rows and columns from 0, or say the ``place`` of a row; they call the features
    ``x_source``, the labels ``y_source``, and a table's features by the names of its ``columns``.
    """

    x: NDArray[Any]
    y: NDArray[Any] | None
    x_source: str
    y_source: str
    columns: Sequence[str] | None = None
    place: Callable[[int], str] = "row {}".format

    def features(self, value_range: tuple[float, float] | None = None) -> NDArray[Any]:
        """Return the features as (n, d), in their own type; samples with more axes are flattened.

        Raises `ContentError` unless they are two or more samples of finite integers or floats of
        at most 64 bits, none of them outside ``value_range``.
        """
        x, source = self.x, self.x_source
        if x.dtype.kind not in "biuf" or x.dtype.itemsize > 8:
            raise ContentError(f"{source} holds {x.dtype}; features must be integers or floats")
        if x.ndim < 2 or 0 in x.shape[1:] or len(x) < 2:
            raise ContentError(
                f"{source} has shape {x.shape}; it must be (2 or more samples, features), or images"
            )
        dtype = np.dtype(np.uint8) if x.dtype.kind == "b" else x.dtype.newbyteorder("=")
        x = np.ascontiguousarray(x.reshape(len(x), -1), dtype=dtype)
        if x.dtype.kind == "f" and (wrong := ~np.isfinite(x)).any():
            raise ContentError(
                f"{self._first(x, wrong)}, one of {wrong.sum()} values that are not finite; "
                "correct them or remove their rows"
            )
        low, high = value_range or (-np.inf, np.inf)
        # Compared in the type of x, so that 0.3 in single precision is not above 0.3.
        with np.errstate(over="ignore"):
            if x.min() < low or x.max() > high:
                raise ContentError(
                    f"{self._first(x, (x < low) | (x > high))}, outside value_range [{low:g}, "
                    f"{high:g}]; the values lie in [{float(x.min()):g}, {float(x.max()):g}]: "
                    "correct either"
                )
        return x

    def labels(self) -> NDArray[np.int64] | None:
        """Return the labels (n,), if there are any; texts are numbered in sorted order.

        Raises `ContentError` unless there is one integer or text for each sample.
        """
        y, source = self.y, self.y_source
        if y is None:
            return None
        if y.dtype.kind not in "biuUO":
            raise ContentError(f"{source} holds {y.dtype}; labels must be integers or texts")
        if y.shape != (len(self.x),):
            raise ContentError(
                f"{source} has labels of shape {y.shape}, but {self.x_source} has {len(self.x)} "
                "samples; take both from the same dataset, a label for each sample"
            )
        if y.dtype.kind in "UO":
            y = np.unique(y, return_inverse=True)[1]
        return y.astype(np.int64)

    def _first(self, x: NDArray[Any], wrong: NDArray[np.bool_]) -> str:
        row, column = np.argwhere(wrong)[0]
        name = int(column) if self.columns is None else repr(self.columns[column])
        return f"{self.x_source}: {self.place(int(row))}, column {name} is {x[row, column]}"
