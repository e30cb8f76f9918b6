"""What matters about samples for conditioning: norms, equal ones, mean, dimensions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.angles.pairs import find_duplicates
from ntk_conditioning.data import datasheets
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.calculus import Array
from ntk_conditioning.theory.sphere import effective_dimension, unit_rows

#: Values in this range can be squared in float64.
SMALLEST, LARGEST = 1e-144, 1e144


@dataclass(frozen=True)
class Geometry(datasheets.Geometry):
    """Numbers of n samples in d dimensions, those of a datasheet for samples with a direction.

    ``zeros`` counts the others. ``rows`` are the different ones, and ``equal`` names equal ones.
    ``mean_cosine`` is over pairs; ``effective_dimension``, as in `theory.sphere`, and ``rank`` are
    of samples divided by their norm.
    """

    n: int
    d: int
    zeros: int
    rows: NDArray[np.intp]
    equal: str
    mean_cosine: float
    effective_dimension: float
    rank: int


def geometry(name: str, x: Array) -> Geometry:
    """Return the numbers of samples ``x`` (n, d); no n × n array is formed.

    Raises `UserError` with their ``name`` if squares of values leave float64's range, or fewer than
    four different samples have a direction, or all have one.
    """
    sizes = np.abs(x).max(axis=1)
    for size in (sizes.max(initial=1), sizes.min(where=sizes > 0, initial=1)):
        if not SMALLEST < size < LARGEST:
            raise UserError(
                f"{name}: values of size {size:.0e} leave float64's range when they are squared; "
                "scale the samples"
            )
    rows = np.flatnonzero(sizes)
    duplicates = find_duplicates(x[rows])
    if (different := len(duplicates.first)) < 4:
        raise UserError(
            f"{name}: {different} different non-zero samples; advice needs four or more"
        )
    units = unit_rows(x[rows])
    rank = int(np.linalg.matrix_rank(units))
    if rank < 2:
        raise UserError(f"{name}: all samples are parallel; of norm 1 they would be equal")
    sheet = datasheets.geometry(x[rows])
    count = len(rows)
    mean = float(np.square(units.sum(axis=0)).sum() - count) / (count * (count - 1))
    pair = {"i": int(rows[sheet.i or 0]), "j": int(rows[sheet.j or 0])}
    return Geometry(
        **vars(sheet) | pair,
        n=len(x),
        d=x.shape[1],
        zeros=len(x) - count,
        rows=rows[duplicates.first],
        equal=duplicates.in_words(rows),
        mean_cosine=mean,
        effective_dimension=effective_dimension(units),
        rank=rank,
    )
