"""Norms, rank and smallest angle of a dataset's samples, which takes minutes if they are many."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels import infinite
from ntk_conditioning.spectra.condition_numbers import conditioning_from_factor


@dataclass(frozen=True)
class Geometry:
    """Numbers of n samples in d dimensions.

    ``norm_min``, ``norm_median`` and ``norm_max`` are of the Euclidean norms. ``constant_columns``
    counts the features with one value in all samples. ``gram_rank`` is the numerical rank of the
    Gram matrix, see `spectra.conditioning_from_factor`. ``duplicates`` counts the pairs of samples
    that are equal in every entry. ``min_angle`` is the smallest angle in degrees between two
    samples that are not equal, and ``i < j`` are their rows; None if all samples are equal.
    """

    norm_min: float
    norm_median: float
    norm_max: float
    constant_columns: int
    gram_rank: int
    duplicates: int
    min_angle: float | None
    i: int | None
    j: int | None


def geometry(x: NDArray[np.float64]) -> Geometry:
    """Return the numbers of samples ``x`` (n, d); no n × n matrix is formed.

    Raises `UserError` if a sample is zero or not finite, or a norm overflows.

    >>> sheet = geometry(np.array([[3.0, 4.0], [0.0, 2.0], [3.0, 4.0], [0.0, 1.0]]))
    >>> sheet.norm_min, sheet.norm_median, sheet.norm_max, sheet.gram_rank
    (1.0, 3.5, 5.0, 2)
    >>> sheet.duplicates, sheet.min_angle, sheet.i, sheet.j
    (1, 0.0, 1, 3)
    """
    norms = np.linalg.norm(x, axis=1)
    if not np.isfinite(norms).all():
        raise UserError("the norm of a sample overflows float64; scale the samples")
    constant = x.min(axis=0) == x.max(axis=0)
    angle, i, j = None, None, None
    duplicates = len(x) * (len(x) - 1) // 2
    if not constant.all():
        # the gradients of the model of depth 0 are the samples
        closest = infinite.min_angle(x, depth=0, activation="linear", exclude_duplicates=True)
        duplicates, angle, i, j = closest.duplicates, closest.degrees, closest.i, closest.j
    return Geometry(
        norm_min=float(norms.min()),
        norm_median=float(np.median(norms)),
        norm_max=float(norms.max()),
        constant_columns=int(constant.sum()),
        gram_rank=conditioning_from_factor(x).numerical_rank,
        duplicates=duplicates,
        min_angle=angle,
        i=i,
        j=j,
    )
