"""Which samples of a dataset a seed draws."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import seeds
from ntk_conditioning.errors import UserError


class SubsetError(UserError):
    """The dataset has not the samples that are asked for."""


def seed_stream(seed: int) -> np.random.Generator:
    """Return the generator of a seed's draws.

    It is a stream of its own: a Gaussian dataset of the same seed is drawn from its parent, and
    from one stream the choice of samples would depend on their values.
    """
    (stream,) = seeds.generator(seed, "data").spawn(1)
    return stream


def draw(
    name: str,
    total: int,
    n: int,
    *,
    generator: np.random.Generator,
    classes: NDArray[np.int64] | None = None,
) -> NDArray[np.intp]:
    """Return ``n`` of ``total`` samples of the dataset ``name``, drawn without replacement.

    The samples are numbers in ascending order. With the samples' ``classes`` (total,) the draw is
    balanced: ``n // c`` of each of the c classes, and one more of the first ``n % c`` of them.

    Raises:
        SubsetError: if there are not so many samples, in the dataset or in a class, or fewer
            samples than classes.

    >>> labels = np.array([0, 0, 0, 0, 1, 1])
    >>> rows = draw("six", 6, 3, generator=np.random.default_rng(0), classes=labels)
    >>> labels[rows].tolist()
    [0, 0, 1]
    """
    if not 2 <= n <= total:
        raise SubsetError(f"{name}: {n} samples asked for; it must be 2 to {total}, or all")
    if classes is None:
        return np.sort(generator.choice(total, size=n, replace=False))
    labels, counts = np.unique(classes, return_counts=True)
    if n < len(labels):
        raise SubsetError(f"{name}: {n} samples cannot hold each of {len(labels)} classes")
    shares = n // len(labels) + (np.arange(len(labels)) < n % len(labels))
    short = np.flatnonzero(counts < shares)
    if len(short):
        k = short[0]
        raise SubsetError(
            f"{name}: class {labels[k]} has {counts[k]} samples, but a balanced draw of {n} "
            f"takes {shares[k]}; at most {len(labels) * counts.min()} samples are balanced"
        )
    rows = [
        generator.choice(np.flatnonzero(classes == label), size=share, replace=False)
        for label, share in zip(labels, shares, strict=True)
    ]
    return np.sort(np.concatenate(rows))
