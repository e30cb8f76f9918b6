"""Smallest angle over all pairs of samples: the result type and what every search of it shares."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError

#: Pairs of equal rows that are named.
EXAMPLES = 3


class ZeroRowError(UserError):
    """A row has no direction, so that no angle to it exists."""


@dataclass(frozen=True)
class MinAngle:
    """The smallest angle between two samples and the pair that has it.

    ``angle`` is in radians; ``i < j`` are rows of the input; ``duplicates`` counts the pairs of
    rows that are equal in every entry (their angle is exactly 0); ``candidates`` is the number of
    pairs that were too close to call in the screening and were computed accurately. ``error``
    bounds the error of the angle in radians, where a bound is known.
    """

    angle: float
    i: int
    j: int
    duplicates: int
    candidates: int
    error: float | None = None

    @property
    def degrees(self) -> float:
        """The angle in degrees."""
        return math.degrees(self.angle)

    def row(self) -> dict[str, float | None]:
        """Return what the search gives of a row of the table of angles."""
        error = None if self.error is None else math.degrees(self.error)
        names = ("i", "j", "duplicates", "candidates")
        angles = {"min_angle": self.degrees, "min_angle_error": error}
        return angles | {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Duplicates:
    """Equal rows of a matrix: ``first`` holds the first row of every distinct value, ascending.

    ``pairs`` counts the pairs of equal rows; ``examples`` are the lowest, at most `EXAMPLES`.
    """

    first: NDArray[np.intp]
    pairs: int
    examples: list[tuple[int, int]]

    def in_words(self, rows: NDArray[np.intp]) -> str:
        """Return which samples are equal; ``rows`` are what the rows of the matrix are called.

        >>> find_duplicates(np.array([[1.0], [2.0], [2.0], [2.0]])).in_words(np.arange(4))
        'samples 1 and 2, 1 and 3, and 1 more pair are equal (counted from 0)'
        """
        pairs = [f"{rows[i]} and {rows[j]}" for i, j in self.examples]
        if more := self.pairs - len(pairs):
            pairs.append(f"and {more:,} more {'pair' if more == 1 else 'pairs'}")
        return f"samples {', '.join(pairs)} are equal (counted from 0)"


def find_duplicates(x: NDArray[np.floating]) -> Duplicates:
    """Return which rows of ``x`` (n, d), of any float dtype, equal an earlier row in every entry.

    >>> find_duplicates(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
    Duplicates(first=array([0, 1]), pairs=1, examples=[(0, 2)])
    """
    # 64 bits agree by chance once in 10^10 datasets of 60,000 samples; -0.0 + 0 is 0
    zero = x.dtype.type(0)
    hashes = np.fromiter((hash((row + zero).tobytes()) for row in x), np.int64, len(x))
    _, first, value, counts = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    earlier = first[value]  # the first row of each row's value
    later = np.flatnonzero(earlier != np.arange(len(x)))
    pairs = int(np.sum(counts * (counts - 1)) // 2)
    examples = sorted(zip(earlier[later].tolist(), later.tolist(), strict=True))[:EXAMPLES]
    return Duplicates(np.sort(first), pairs, examples)


def require_directions(x: NDArray[np.floating]) -> None:
    """Raise `ZeroRowError` if a row of ``x`` (n, d) is zero."""
    if len(zero := np.flatnonzero(~x.any(axis=1))):
        raise ZeroRowError(
            f"{len(zero)} rows are zero and have no direction, the first is row {zero[0]}; "
            "remove them from the dataset"
        )


def spans(n: int, size: int, *, start: int = 0) -> Iterator[slice]:
    """Yield slices of ``size`` from ``start`` to ``n``."""
    return (slice(top, min(top + size, n)) for top in range(start, n, size))


def upper_tiles(n: int, tile: int) -> Iterator[tuple[slice, slice]]:
    """Yield the row and column slices of the tiles that cover the upper triangle of n × n.

    >>> [(r.start, c.start) for r, c in upper_tiles(5, 3)]
    [(0, 0), (0, 3), (3, 3)]
    """
    return combinations_with_replacement(spans(n, tile), 2)
