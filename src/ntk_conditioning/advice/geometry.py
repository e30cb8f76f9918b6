"""What matters about samples for conditioning: norms, equal and close ones, mean, dimensions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.angles.pairs import find_duplicates, upper_tiles
from ntk_conditioning.kernels import infinite
from ntk_conditioning.theory.sphere import effective_dimension

Array = NDArray[np.float64]

#: Angles in degrees below which pairs of samples are counted as close.
CLOSE = (1.0, 5.0)
#: Rows and columns of a tile of cosines.
TILE = 2048


@dataclass(frozen=True)
class Geometry:
    """Numbers of n samples in d dimensions.

    ``zeros`` counts the samples without direction, of which nothing else is said, and ``distinct``
    the different others; ``norms`` are the smallest, median and largest norm. ``duplicates`` counts
    the pairs of equal samples, which ``equal`` names. ``angle`` in degrees is the smallest between
    two that differ, in the rows ``i`` < ``j``, None if there is none; ``close`` counts the pairs of
    different samples below each angle of `CLOSE`. ``mean_cosine`` is over pairs;
    ``effective_dimension``, as in `theory.sphere`, and ``rank`` are of samples divided by their
    norm.
    """

    n: int
    d: int
    zeros: int
    distinct: int
    norms: tuple[float, float, float]
    constant_columns: int
    duplicates: int
    equal: str
    angle: float | None
    i: int | None
    j: int | None
    close: tuple[int, ...]
    mean_cosine: float
    effective_dimension: float
    rank: int


def geometry(x: Array) -> Geometry:
    """Return the numbers of samples ``x`` (n, d), in tiles: no n × n array is formed.

    >>> found = geometry(np.array([[3.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 0.0]]))
    >>> found.zeros, found.distinct, found.duplicates, found.norms, round(found.angle, 9)
    (1, 2, 1, (1.0, 1.0, 3.0), 90.0)
    """
    norms = np.linalg.norm(x, axis=1)
    rows = np.flatnonzero(norms)
    duplicates = find_duplicates(x[rows])
    first = rows[duplicates.first]
    angle, i, j = None, None, None
    if len(first) > 1:
        # the gradients of the model of depth 0 are the samples
        closest = infinite.min_angle(x[first], depth=0, activation="linear")
        angle, i, j = closest.degrees, int(first[closest.i]), int(first[closest.j])
    units = x[rows] / norms[rows, None]
    count, pairs = len(rows), len(rows) * (len(rows) - 1)
    mean = (float(np.square(units.sum(axis=0)).sum()) - count) / pairs if pairs else 1.0
    return Geometry(
        n=len(x),
        d=x.shape[1],
        zeros=len(x) - count,
        distinct=len(first),
        norms=tuple(np.quantile(norms[rows], [0, 0.5, 1]).tolist()) if count else (0.0, 0.0, 0.0),
        constant_columns=int((x.min(axis=0) == x.max(axis=0)).sum()),
        duplicates=duplicates.pairs,
        equal=duplicates.in_words(rows),
        angle=angle,
        i=i,
        j=j,
        close=_close(x[first] / norms[first, None]),
        mean_cosine=mean,
        effective_dimension=effective_dimension(units) if pairs else 1.0,
        rank=int(np.linalg.matrix_rank(units)) if count else 0,
    )


def _close(units: Array) -> tuple[int, ...]:
    """Return how many pairs of unit rows (n, d) are closer than each angle of `CLOSE`."""
    rough = units.astype(np.float32)
    limits = np.cos(np.radians(CLOSE))
    counts = np.zeros(len(CLOSE), dtype=np.int64)
    for rows, columns in upper_tiles(len(rough), TILE):
        cosines = rough[rows] @ rough[columns].T
        if rows == columns:
            cosines = np.triu(cosines, 1)
        counts += [np.count_nonzero(cosines > limit) for limit in limits]
    return tuple(counts.tolist())
