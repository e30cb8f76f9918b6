"""Gradients of many samples, parameter by parameter, and their inner products: the kernel.

The gradient in the weight of a linear layer at s positions (the words of a sentence, say) is
Σ_s d_s a_sᵀ, and kept as its factors, where that is cheaper: the inner product of two is
Σ_st (a_s · a_t)(d_s · d_t). That of a convolution, a bias or a scale is kept as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients of k combinations of outputs of n samples, by the name of the parameter.

    A term is (g,), the gradients (n, k, 1, p) by p entries, or their factors (d, a): d
    (n, k, s, out), and a (n, s, in), or (n, s), the numbers of an embedding's rows.
    """

    terms: Mapping[str, tuple[Tensor, ...]]

    def each(self, change: Callable[[Tensor], Tensor]) -> Gradients:
        return Gradients({name: tuple(map(change, term)) for name, term in self.terms.items()})

    def rows(self, r: slice) -> Gradients:
        return self.each(lambda t: t[r])

    def add(self, total: Tensor, others: Gradients, *, full: bool) -> None:
        """Add inner products to ``total``: (n k, m k) if ``full``, else (n, m) summed over k."""
        for name, (d, *a) in self.terms.items():
            d2, *a2 = others.terms[name]  # without an a, d is g
            if not full:  # a sum over outputs as over entries: (n, 1, s, k out)
                d, d2 = (t.transpose(1, 2).flatten(2).unsqueeze(1) for t in (d, d2))
            (n, k, s, _), (m, _, t, _) = d.shape, d2.shape
            d, d2 = d.flatten(0, 2), d2.flatten(0, 2)
            if not a:
                total.addmm_(d, d2.T)
                continue
            if a[0].ndim == 2:  # one-hot rows: their product is 1 where the numbers agree
                alpha = (a[0].reshape(-1, 1) == a2[0].reshape(1, -1)).to(total.dtype)
            else:
                alpha = a[0].flatten(0, 1) @ a2[0].flatten(0, 1).T
            products = (d @ d2.T).view(n, k, s, m, k, t).mul_(alpha.view(n, 1, s, m, 1, t))
            total += products.sum((2, 5)).view(total.shape)
