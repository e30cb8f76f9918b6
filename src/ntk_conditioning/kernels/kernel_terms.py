"""What parameters add to a kernel between two sets of samples, from gradients or their factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Matrix:
    """Gradients ``values`` (n, k, p): of k outputs of each sample, by p entries of a parameter."""

    values: Tensor

    def rows(self, r: slice) -> Matrix:
        return Matrix(self.values[r])

    def add(self, total: Tensor, there: Matrix, *, full: bool) -> None:
        """Add the inner products to ``total``, all outputs side by side or their sum."""
        a, b = (t.flatten(0, 1) if full else t.flatten(1) for t in (self.values, there.values))
        total.addmm_(a, b.T)


@dataclass(frozen=True, eq=False)
class Factors:
    """Gradients by a weight that are sums over s positions of outer products of d and a.

    ``a`` (n, s, in) is what the layer is given, or the numbers (n, s) of rows of an embedding, and
    ``d`` (n, k, s, out) are the gradients of k outputs where the layer ends.
    """

    a: Tensor
    d: Tensor

    def rows(self, r: slice) -> Factors:
        return Factors(self.a[r], self.d[r])

    def add(self, total: Tensor, there: Factors, *, full: bool) -> None:
        """Add Σ_st (a_is · a_jt)(d_is · d_jt) for all pairs to ``total``, as `Matrix.add` does."""
        (n, k, s, out), (m, _, t, _) = self.d.shape, there.d.shape
        if self.a.ndim == 2:
            alpha = (self.a.reshape(-1, 1) == there.a.reshape(1, -1)).to(total.dtype)
        else:
            alpha = self.a.flatten(0, 1) @ there.a.flatten(0, 1).T
        if full:
            delta = self.d.reshape(-1, out) @ there.d.reshape(-1, out).T
            delta = delta.view(n, k, s, m, k, t) * alpha.view(n, 1, s, m, 1, t)
            total += delta.sum((2, 5)).view(n * k, m * k)
            return
        d, d2 = (each.transpose(1, 2).flatten(0, 1).flatten(1) for each in (self.d, there.d))
        delta = d @ d2.T
        if s == t == 1:
            total.addcmul_(alpha, delta)
        else:
            total += delta.mul_(alpha).view(n, s, m, t).sum((1, 3))


@dataclass(frozen=True, eq=False)
class Gradients:
    """The contributions of parameters, by name, for ``outputs`` k of each sample."""

    outputs: int
    terms: Mapping[str, Matrix | Factors]

    def rows(self, r: slice) -> Gradients:
        return Gradients(self.outputs, {name: term.rows(r) for name, term in self.terms.items()})

    def add(self, total: Tensor, there: Gradients, *, full: bool) -> None:
        """Add all inner products to ``total``."""
        for name, term in self.terms.items():
            term.add(total, there.terms[name], full=full)  # type: ignore[arg-type]

    def pair_bytes(self, *, full: bool) -> int:
        """Return what the products of a pair of samples take beside the kernel, at most."""
        k = self.outputs**2 if full else 1
        factors = [term.d for term in self.terms.values() if isinstance(term, Factors)]
        return max((3 * k * d.shape[2] ** 2 * d.element_size() for d in factors), default=0)


@dataclass(frozen=True)
class Product:
    """The sizes of a weight's product with a sample; ``by_index`` if it is an embedding's."""

    positions: int
    inputs: int
    outputs: int
    by_index: bool = False

    @property
    def _given(self) -> int:
        return 1 if self.by_index else self.inputs

    def factor_entries(self, k: int) -> int:
        """Return the entries of a sample's factors for ``k`` outputs of the network."""
        return self.positions * (self._given + k * self.outputs)

    def is_factored(self, n: int, k: int, *, full: bool) -> bool:
        """Return whether pairs of positions of ``n`` samples take fewer multiplications."""
        entries, pairs = self.inputs * self.outputs, n * n / 2
        rows = k**2 if full else k
        factors = pairs * self.positions**2 * (self._given + rows * self.outputs)
        return factors < pairs * rows * entries + n * k * self.positions * entries
