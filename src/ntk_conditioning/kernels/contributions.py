"""What a parameter adds to a kernel between two sets of samples, from gradients or from factors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Matrix:
    """Gradients ``values`` (n, k, p): of k outputs of each sample, by p entries of parameters."""

    values: Tensor

    def rows(self, r: slice) -> Matrix:
        return Matrix(self.values[r])

    def add(self, total: Tensor, there: Matrix, *, full: bool) -> None:
        """Add the inner products to ``total``, all outputs side by side or their sum."""
        n, k, p = self.values.shape
        a, b = self.values, there.values
        shape = (-1, p) if full else (-1, k * p)
        total.addmm_(a.reshape(shape), b.reshape(shape).T)


@dataclass(frozen=True, eq=False)
class Factors:
    """Gradients that are sums over positions of outer products of d and a.

    ``a`` (n, g, s, in), or indices (n, g, s) of rows of the identity, and ``d`` (n, k, g, s, out),
    for k outputs, g groups and s positions.
    """

    a: Tensor
    d: Tensor

    def rows(self, r: slice) -> Factors:
        return Factors(self.a[r], self.d[r])

    def add(self, total: Tensor, there: Factors, *, full: bool) -> None:
        """Add Σ_st (a_is · a_jt)(d_is · d_jt) for all pairs to ``total``, as `Matrix.add` does."""
        (n, k, groups, s), (m, t) = self.d.shape[:4], (len(there.d), there.d.shape[3])
        for g in range(groups):
            alpha = _alphas(self.a[:, g], there.a[:, g])
            here, other = self.d[:, :, g], there.d[:, :, g]
            if full:
                delta = here.reshape(n * k * s, -1) @ other.reshape(m * k * t, -1).T
                delta = delta.view(n, k, s, m, k, t) * alpha.view(n, 1, s, m, 1, t)
                total += delta.sum((2, 5)).view(n * k, m * k)
                continue
            delta = here.transpose(1, 2).reshape(n * s, -1) @ (
                other.transpose(1, 2).reshape(m * t, -1).T
            )
            if s == t == 1:
                total.addcmul_(alpha, delta)
            else:
                total += delta.mul_(alpha).view(n, s, m, t).sum((1, 3))


def _alphas(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner products (n s, m t) of all positions."""
    if a.ndim == 2:
        equal = a.reshape(-1, 1) == b.reshape(1, -1)
        return equal.to(torch.get_default_dtype())
    return a.reshape(-1, a.shape[-1]) @ b.reshape(-1, b.shape[-1]).T


Contribution = Matrix | Factors


@dataclass(frozen=True)
class Sizes:
    """Of a weight: groups g, positions s, inputs and outputs in a group, entries p; k outputs."""

    g: int
    s: int
    inputs: int
    outputs: int
    by_index: bool
    p: int
    k: int

    def factors_are_cheaper(self, n: int, *, full: bool) -> bool:
        """Return whether the pairs of positions of ``n`` samples take fewer multiplications."""
        pairs = n * n / 2
        k = self.k**2 if full else self.k
        inputs = 1 if self.by_index else self.inputs
        factors = pairs * self.g * self.s**2 * (inputs + k * self.outputs)
        gradients = pairs * k * self.p + n * self.k * self.s * self.p
        return factors < gradients

    @property
    def factor_entries(self) -> int:
        """The entries of the factors of a sample."""
        inputs = 1 if self.by_index else self.inputs
        return self.g * self.s * (inputs + self.k * self.outputs)


def pair_bytes(contribution: Contribution, *, full: bool) -> int:
    """Return what the products of a pair of samples take beside the kernel."""
    if isinstance(contribution, Matrix):
        return 0
    n, k, _, s = contribution.d.shape[:4]
    return 3 * math.prod((s, s, k**2 if full else 1)) * contribution.d.element_size()
