"""Disjoint random blocks of samples, the way liu2023relu's condition numbers are taken."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError


class BlockError(UserError):
    """The blocks asked for do not fit into the dataset."""


def draw_blocks(
    n: int,
    *,
    size: int | Literal["all"],
    count: int | Literal["all"],
    generator: np.random.Generator,
) -> list[NDArray[np.intp]]:
    """Return the sample indices of ``count`` disjoint random blocks of ``size`` out of ``n``.

    ``size="all"`` makes one block of the whole dataset in its own order, and ``count="all"`` as
    many whole blocks as fit: the ``n % size`` samples left over are in none. Raises `BlockError`
    for more than fit.

    >>> blocks = draw_blocks(7, size=3, count="all", generator=np.random.default_rng(0))
    >>> len(blocks), len(set(np.concatenate(blocks).tolist()))
    (2, 6)
    """
    if size == "all":
        if count not in ("all", 1):
            raise BlockError(f"kernel_size all makes 1 block, not {count}; set blocks to 1")
        return [np.arange(n)]
    fit = n // size
    if fit == 0:
        raise BlockError(f"kernel_size {size} is larger than the dataset's {n} samples")
    wanted = fit if count == "all" else count
    if wanted > fit:
        raise BlockError(
            f"{wanted} disjoint blocks of {size} need more than {n} samples; at most {fit} fit"
        )
    order = generator.permutation(n)
    return [np.sort(order[block * size : (block + 1) * size]) for block in range(wanted)]
