"""Which samples of a dataset a seed draws."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import seeds
from ntk_conditioning.errors import UserError


def seed_stream(seed: int) -> np.random.Generator:
    """Return the generator of a seed's draws, independent of a Gaussian dataset's of that seed."""
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
    """Return the rows of ``n`` of ``total`` samples, ascending, drawn without replacement.

    With the samples' ``classes`` (total,) the draw is balanced: ``n // c`` of each of the c
    classes, and one more of the first ``n % c`` of them. Raises `UserError`, with the dataset's
    ``name``, if the dataset or a class has too few samples, or n is below c.
    """
    if not 2 <= n <= total:
        raise UserError(f"{name}: {n} samples asked for; it must be 2 to {total}, or all")
    classes = np.zeros(total, np.int64) if classes is None else classes
    labels, counts = np.unique(classes, return_counts=True)
    if n < len(labels):
        raise UserError(f"{name}: {n} samples cannot hold each of {len(labels)} classes")
    shares = n // len(labels) + (np.arange(len(labels)) < n % len(labels))
    if len(short := np.flatnonzero(counts < shares)):
        k = short[0]
        raise UserError(
            f"{name}: class {labels[k]} has {counts[k]} samples, but a balanced draw of {n} "
            f"takes {shares[k]}; at most {len(labels) * counts.min()} samples are balanced"
        )
    rows = [
        generator.choice(np.flatnonzero(classes == label), size=share, replace=False)
        for label, share in zip(labels, shares, strict=True)
    ]
    return np.sort(np.concatenate(rows))


def draw_on_sphere(name: str, x: NDArray[np.float64], n: int, *, seed: int) -> NDArray[np.float64]:
    """Return ``n`` of the samples ``x`` (total, d) that a seed draws, over their norms."""
    drawn = x[draw(name, len(x), n, generator=seed_stream(seed))]
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def draw_two_classes(
    name: str,
    labels: NDArray[np.int64] | None,
    n: int,
    *,
    generator: np.random.Generator,
    classes: Sequence[int] | None = None,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the rows of ``n`` samples, ascending, half of each of two classes, and their signs.

    The signs are -1 for the first of the ``classes``, by default the lowest two of the ``labels``
    (total,), and 1 for the second. Raises `UserError` as `draw`, or if these have no labels.

    >>> rng = np.random.default_rng(0)
    >>> draw_two_classes("four", np.array([2, 0, 1, 0]), 2, generator=rng, classes=[2, 1])
    (array([0, 2]), array([-1.,  1.]))
    """
    if labels is None:
        raise UserError(f"{name} has no labels, and two classes are needed; take another dataset")
    known = np.unique(labels)
    chosen = known[:2].tolist() if classes is None else list(classes)
    if len(set(chosen) & set(known.tolist())) < 2:
        raise UserError(
            f"{name}: classes {chosen} are not two of its labels, which are "
            f"{known[0]} to {known[-1]}; correct the classes"
        )
    of_two = np.flatnonzero(np.isin(labels, chosen))
    rows = of_two[draw(name, len(of_two), n, generator=generator, classes=labels[of_two])]
    return rows, np.where(labels[rows] == chosen[0], -1.0, 1.0)
