"""What a parameter adds to a kernel between two sets of samples, from gradients or from factors."""

from __future__ import annotations

from collections.abc import Mapping
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
        a, b = (t.flatten(0, 1) if full else t.flatten(1) for t in (self.values, there.values))
        total.addmm_(a, b.T)


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
            alpha = _alphas(self.a[:, g], there.a[:, g], total.dtype)
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


def _alphas(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the inner products (n s, m t) of all positions."""
    if a.ndim == 2:
        return (a.reshape(-1, 1) == b.reshape(1, -1)).to(dtype)
    return a.reshape(-1, a.shape[-1]) @ b.reshape(-1, b.shape[-1]).T


@dataclass(frozen=True, eq=False)
class Gradients:
    """The contributions of parameters, by name, for ``outputs`` k of each sample."""

    outputs: int
    matrices: Mapping[str, Matrix]
    factors: Mapping[str, Factors]

    def rows(self, r: slice) -> Gradients:
        return Gradients(
            self.outputs,
            {name: m.rows(r) for name, m in self.matrices.items()},
            {name: f.rows(r) for name, f in self.factors.items()},
        )

    def add(self, total: Tensor, there: Gradients, *, full: bool) -> None:
        """Add all inner products to ``total``."""
        for name, matrix in self.matrices.items():
            matrix.add(total, there.matrices[name], full=full)
        for name, factors in self.factors.items():
            factors.add(total, there.factors[name], full=full)

    def combined(self, name: str, shares: Tensor) -> Tensor:
        """Return a parameter's part (n, n) of the kernel of the outputs, summed with ``shares``."""
        if name in self.matrices:
            values = self.matrices[name].values
            g = torch.einsum("nkp,k->np", values, shares.to(values.dtype))
            return g @ g.T
        factors = self.factors[name]
        d = torch.einsum("nkgso,k->ngso", factors.d, shares.to(factors.d.dtype)).unsqueeze(1)
        part = Factors(factors.a, d)
        total = d.new_zeros(len(d), len(d))
        part.add(total, part, full=False)
        return total

    def pair_bytes(self, *, full: bool) -> int:
        """Return what the products of a pair of samples take beside the kernel, at most."""
        k = self.outputs**2 if full else 1
        sizes = (3 * k * f.d.shape[3] ** 2 * f.d.element_size() for f in self.factors.values())
        return max(sizes, default=0)


@dataclass(frozen=True)
class Product:
    """The sizes of a weight's product with samples.

    Its ``inputs`` and ``outputs`` are those of a group; ``by_index`` if the inputs are indices.
    """

    groups: int
    positions: int
    inputs: int
    outputs: int
    by_index: bool = False

    @property
    def _given(self) -> int:
        return 1 if self.by_index else self.inputs

    def factor_entries(self, k: int) -> int:
        """Return the entries of a sample's factors for ``k`` outputs of the network."""
        return self.groups * self.positions * (self._given + k * self.outputs)

    def is_factored(self, n: int, k: int, *, full: bool) -> bool:
        """Return whether pairs of positions of ``n`` samples take fewer multiplications."""
        entries, pairs = self.groups * self.inputs * self.outputs, n * n / 2
        rows = k**2 if full else k
        factors = pairs * self.groups * self.positions**2 * (self._given + rows * self.outputs)
        return factors < pairs * rows * entries + n * k * self.positions * entries
