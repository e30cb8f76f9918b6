"""Where the table `phase_laws` has the laws evaluated; nothing is computed here."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np


def places(
    *, samples: int, samples_per_dimension: Sequence[float], closest: float, points: Sequence[int]
) -> Iterator[tuple[int, float]]:
    """Yield dimensions d, from 3 on, and mean cosines c of equicorrelated samples.

    The ``points`` are of n/d from its smallest to its largest value, and of 1 - c from ``closest``
    to 1, both evenly in their logarithm.

    >>> [*places(samples=8, samples_per_dimension=[1, 2], closest=0.1, points=[2, 2])]
    [(4, 0.0), (4, 0.9), (8, 0.0), (8, 0.9)]
    """
    (least, most), (across, down) = samples_per_dimension, points
    ratios = np.geomspace(least, most, across)
    dimensions = sorted({round(samples / ratio) for ratio in ratios if samples / ratio >= 3})
    cosines = [0.0, *(1 - np.geomspace(closest, 1, down)[-2::-1]).tolist()]
    yield from product(dimensions, cosines)
