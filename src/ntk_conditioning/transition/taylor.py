"""The quadratic term of a network's expansion in its weights, and the Hessian's norm.

With Lagrange's remainder the expansion is exact (liu2022transition, Eq. (1)), so that the quadratic
term 1/2 δ^T H(ξ) δ at weights w_0 + δ is f(w_0 + δ) - f(w_0) - grad f(w_0) · δ, whatever ξ is.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence
from torch import Tensor

from ntk_conditioning.errors import UserError
from ntk_conditioning.transition.feedforward import FeedforwardNet, outputs
from ntk_conditioning.transition.gradients import lanczos

#: Relative accuracy at which Lanczos stops: the error of an eigenvalue is about its square.
TOLERANCE = 1e-5
#: Vectors that Lanczos keeps: half of SciPy's default takes no more products here, and less time.
LANCZOS_VECTORS = 10
#: Steps of an ascent, and the relative rise that ends it.
ASCENT_STEPS, LEAST_RISE = 20, 1e-4


class Expansion:
    """The expansion of f(x), at one sample, in all weights or in those below the last layer.

    Weights are one vector δ (p,), layer by layer; ``size`` is p, ``origin`` no change and
    ``gradient`` that of f at w_0.
    """

    def __init__(self, net: FeedforwardNet, x: Tensor, *, last_fixed: bool = False) -> None:
        """Take the network at its weights w_0, and a sample ``x`` (d,)."""
        self._net, self._x = net, x[None]
        self._free = len(net.weights) - (1 if last_fixed else 0)
        self._start = torch.cat([weight.flatten() for weight in net.weights[: self._free]])
        self.size, self.origin = len(self._start), torch.zeros_like(self._start)
        self._at_start = self.value(self.origin)
        # Kept: each product with H then costs a backward pass through it, and no forward pass.
        self._at = self.origin.clone().requires_grad_()
        self._slope = torch.autograd.grad(self.value(self._at), self._at, create_graph=True)[0]
        self.gradient = self._slope.detach()

    def value(self, change: Tensor) -> Tensor:
        """Return f(w_0 + δ) for a change δ (p,) of the weights."""
        kept = self._net.weights
        parts = torch.split(self._start + change, [weight.numel() for weight in kept[: self._free]])
        free = [part.view_as(weight) for part, weight in zip(parts, kept, strict=False)]
        return outputs(self._net.with_weights([*free, *kept[self._free :]]), self._x)[0]

    def quadratic_term(self, change: Tensor) -> float:
        """Return 1/2 δ^T H(ξ) δ, the Lagrange remainder at a change δ (p,)."""
        return float(self.value(change) - self._at_start - self.gradient @ change)

    def quadratic_term_gradient(self, change: Tensor) -> Tensor:
        """Return the gradient (p,) of `quadratic_term` by δ."""
        at = change.detach().requires_grad_()
        return torch.autograd.grad(self.value(at), at)[0] - self.gradient

    def hessian_product(self, v: Tensor) -> Tensor:
        """Return H v (p,) at w_0."""
        if not self._slope.requires_grad:  # f is linear in these weights
            return torch.zeros_like(v)
        # v as an argument of `grad` makes torch import sympy
        return torch.autograd.grad(self._slope @ v, self._at, retain_graph=True)[0]


@dataclass(frozen=True, eq=False)
class HessianNorm:
    """The spectral norm |λ| of H, the eigenvector v (p,) of λ, and the residual |H v - λ v|.

    An eigenvalue of H lies within the residual of λ.
    """

    norm: float
    residual: float
    eigenvector: Tensor


def hessian_norm(expansion: Expansion) -> HessianNorm:
    """Return the spectral norm of the Hessian at w_0, by Lanczos' iterations.

    Raises `UserError` if they do not converge.
    """
    like, options = expansion.origin, {"ncv": min(LANCZOS_VECTORS, expansion.size)}
    try:
        values, vectors = lanczos(expansion.hessian_product, like, tol=TOLERANCE, **options)
    except ArpackNoConvergence as error:
        raise UserError(f"the Hessian's norm did not converge: {error}") from error
    except ArpackError:
        some = torch.ones_like(like) / math.sqrt(expansion.size)
        if expansion.hessian_product(some).any():
            raise
        return HessianNorm(0.0, 0.0, some)  # it starts with H v, which must not be 0
    vector = torch.from_numpy(np.ascontiguousarray(vectors[:, 0])).to(like)
    value = float(values[0])
    residual = torch.linalg.vector_norm(expansion.hessian_product(vector) - value * vector)
    return HessianNorm(abs(value), float(residual), vector)


@dataclass(frozen=True)
class LargestTerms:
    """The largest |quadratic term| found in a ball, by the way in which it was found."""

    random: float
    gradient: float
    eigenvector: float
    ascent: float

    @property
    def largest(self) -> float:
        """The largest of all: a bound on the supremum from below."""
        return max(self.random, self.gradient, self.eigenvector, self.ascent)


def largest_terms(
    expansion: Expansion,
    radius: float,
    *,
    eigenvector: Tensor,
    directions: int,
    generator: np.random.Generator,
) -> LargestTerms:
    """Return the largest |quadratic term| at changes δ with |δ| = ``radius``.

    Taken are ``directions`` random ones, both signs of the gradient and of the Hessian's
    ``eigenvector`` (p,), and an ascent from the best of these: by δ <- radius · g/|g|, where g is
    the term's gradient. At a quadratic function this is the power iteration.
    """

    def best(vectors: Iterable[Tensor]) -> tuple[float, Tensor]:
        lengths = ((float(torch.linalg.vector_norm(vector)), vector) for vector in vectors)
        changes = (radius / length * vector if length else vector for length, vector in lengths)
        terms = ((abs(expansion.quadratic_term(change)), change) for change in changes)
        return max(terms, key=lambda pair: pair[0])

    # Drawn one by one: a network has too many weights to keep all directions.
    random = (generator.standard_normal(expansion.size) for _ in range(directions))
    ways = {
        "random": best(torch.from_numpy(vector).to(expansion.origin) for vector in random),
        "gradient": best([expansion.gradient, -expansion.gradient]),
        "eigenvector": best([eigenvector, -eigenvector]),
    }
    climbed = max(_climb(expansion, change, radius) for _, change in ways.values())
    return LargestTerms(ascent=climbed, **{way: term for way, (term, _) in ways.items()})


def _climb(expansion: Expansion, change: Tensor, radius: float) -> float:
    term = expansion.quadratic_term(change)
    for _ in range(ASCENT_STEPS):
        uphill = expansion.quadratic_term_gradient(change) * (1.0 if term >= 0 else -1.0)
        length = torch.linalg.vector_norm(uphill)
        if not length > 0:
            break
        change = radius / length * uphill
        last, term = term, expansion.quadratic_term(change)
        if abs(term) <= (1 + LEAST_RISE) * abs(last):
            term = max(last, term, key=abs)
            break
    return abs(term)
