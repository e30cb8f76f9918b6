"""Which kernels `precision` measures, and by which methods; nothing is computed here."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

#: Activations of networks, and whether their width is finite; the first at depth 0, too.
KINDS = (("linear", True), ("relu", True), ("relu", False))
#: Methods for networks of finite width, for linear ones besides, and for infinite width.
FINITE = ("float32_general", "float32_symmetric", "float32", "float64", "extremes")
LINEAR = ("factor",)
INFINITE = ("cosine_float32", "cosine", "deficits")


class Place(NamedTuple):
    """A kernel of samples of which two are ``delta`` apart, of a network of a width or without."""

    activation: str
    finite: bool
    depth: int
    seed: int
    delta: float

    @property
    def kernel(self) -> str:
        """The kernel's name in tables."""
        return "empirical_ntk" if self.finite else "infinite_ntk"

    @property
    def methods(self) -> tuple[str, ...]:
        """What its condition number is measured by."""
        if not self.finite:
            return INFINITE
        return FINITE + LINEAR if self.activation == "linear" else FINITE


def places(*, depths: Sequence[int], seeds: Sequence[int], points: int) -> Iterator[Place]:
    """Yield the Gram matrix (at depth 0), linear, ReLU and infinitely wide ReLU networks.

    Each comes with ``points`` distances of the pair, logarithmically from 1 on down.

    >>> [(at.activation, at.delta) for at in places(depths=[0], seeds=[1], points=2)]
    [('linear', 1.0), ('linear', 1e-09)]
    """
    for seed in seeds:
        for depth in depths:
            for activation, finite in KINDS if depth else KINDS[:1]:
                # There kappa has passed 1e17. It grows as delta^-2 in finite networks, as soon as
                # no unit tells the pair apart, and as delta^-1 at infinite width.
                for delta in np.geomspace(1, 1e-9 if finite else 1e-15, points).tolist():
                    yield Place(activation, finite, depth, seed, delta)
