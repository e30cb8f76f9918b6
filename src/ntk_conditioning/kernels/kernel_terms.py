"""What parameters add to a kernel: inner products of gradients between two sets of samples.

The kernel is a sum over parameters, K_ij = Σ_p <∂f(x_i)/∂p, ∂f(x_j)/∂p>. The gradient in a
convolution's kernel, a bias or a scale is kept as it is, in `PlainGradients`. That in the weight of
a linear layer at s positions (the words of a sentence, say) is Σ_s d_s a_sᵀ, and kept as its
factors, in `FactoredGradients`: the inner product of two is Σ_st (a_s · a_t)(d_s · d_t).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class PlainGradients:
    """Gradients ``values`` (n, k, p): of k outputs of each sample, by p entries of a parameter."""

    values: Tensor

    def rows(self, r: slice) -> PlainGradients:
        return PlainGradients(self.values[r])

    def add(self, total: Tensor, others: PlainGradients, *, full: bool) -> None:
        """Add inner products to ``total``: (n k, m k) if ``full``, else (n, m) summed over k."""
        a, b = (t.flatten(0, 1) if full else t.flatten(1) for t in (self.values, others.values))
        total.addmm_(a, b.T)


@dataclass(frozen=True, eq=False)
class FactoredGradients:
    """Gradients Σ_s d_s a_sᵀ by the weight of a layer that is applied at s positions.

    ``a`` (n, s, in) are the layer's inputs, or, for an embedding, the row numbers (n, s);
    ``d`` (n, k, s, out) are the gradients of k outputs with respect to the layer's results.
    """

    a: Tensor
    d: Tensor

    def rows(self, r: slice) -> FactoredGradients:
        return FactoredGradients(self.a[r], self.d[r])

    def add(self, total: Tensor, others: FactoredGradients, *, full: bool) -> None:
        """Add Σ_st (a_is · a_jt)(d_is · d_jt) to ``total``; see `PlainGradients.add`."""
        (n, k, s, out), (m, _, t, _) = self.d.shape, others.d.shape
        if self.a.ndim == 2:  # one-hot rows: their product is 1 where the numbers agree
            alpha = (self.a.reshape(-1, 1) == others.a.reshape(1, -1)).to(total.dtype)
        else:
            alpha = self.a.flatten(0, 1) @ others.a.flatten(0, 1).T
        if full:
            delta = self.d.reshape(-1, out) @ others.d.reshape(-1, out).T
            delta = delta.view(n, k, s, m, k, t) * alpha.view(n, 1, s, m, 1, t)
            total += delta.sum((2, 5)).view(n * k, m * k)
            return
        d, d2 = (f.transpose(1, 2).flatten(0, 1).flatten(1) for f in (self.d, others.d))
        delta = d @ d2.T
        if s == t == 1:
            total.addcmul_(alpha, delta)
        else:
            total += delta.mul_(alpha).view(n, s, m, t).sum((1, 3))


Term = PlainGradients | FactoredGradients


@dataclass(frozen=True, eq=False)
class Gradients:
    """The gradients of ``outputs`` k outputs of each sample, by the name of the parameter."""

    outputs: int
    terms: Mapping[str, Term]

    def rows(self, r: slice) -> Gradients:
        return Gradients(self.outputs, {name: term.rows(r) for name, term in self.terms.items()})

    def add(self, total: Tensor, others: Gradients, *, full: bool) -> None:
        """Add the inner products by all parameters to ``total``; see `PlainGradients.add`."""
        for name, term in self.terms.items():
            term.add(total, others.terms[name], full=full)  # type: ignore[arg-type]

    def pair_bytes(self, *, full: bool) -> int:
        """Return the bytes beside the kernel, at most, that the products of one pair take."""
        k = self.outputs**2 if full else 1
        factors = [term.d for term in self.terms.values() if isinstance(term, FactoredGradients)]
        return max((3 * k * d.shape[2] ** 2 * d.element_size() for d in factors), default=0)


@dataclass(frozen=True)
class LayerSizes:
    """A layer W a at each position of a sample; ``by_index`` if it is an embedding."""

    positions: int
    inputs: int
    outputs: int
    by_index: bool = False

    @property
    def _stored_inputs(self) -> int:
        return 1 if self.by_index else self.inputs

    def factor_entries(self, k: int) -> int:
        """Return the entries of a sample's factors for ``k`` outputs of the network."""
        return self.positions * (self._stored_inputs + k * self.outputs)

    def is_factored(self, n: int, k: int, *, full: bool) -> bool:
        """Return whether factors take fewer multiplications than plain gradients, for n samples."""
        entries, pairs = self.inputs * self.outputs, n * n / 2
        rows = k**2 if full else k
        factors = pairs * self.positions**2 * (self._stored_inputs + rows * self.outputs)
        return factors < pairs * rows * entries + n * k * self.positions * entries
