"""How far a network is from linear in its weights, in balls about its initialisation.

With Lagrange's remainder its expansion is exact (liu2022transition, Eq. (1)), so that the quadratic
term 1/2 δ^T H(ξ) δ at weights w_0 + δ is f(w_0 + δ) - f(w_0) - grad f(w_0) · δ, whatever ξ is.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2022transition as theory
from ntk_conditioning.transition.feedforward import FeedforwardNet, outputs
from ntk_conditioning.transition.gradients import gradient_products, lanczos

#: Where Lanczos stops (the error of an eigenvalue is about its square), and vectors that it keeps.
TOLERANCE, LANCZOS_VECTORS = 1e-5, 10
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
        self._start = parameters_to_vector(net.weights[: self._free])
        self.size, self.origin = len(self._start), torch.zeros_like(self._start)
        self._at_start = self.value(self.origin)
        # Kept: each product with H then costs a backward pass through it, and no forward pass.
        self._at = self.origin.clone().requires_grad_()
        self._slope = torch.autograd.grad(self.value(self._at), self._at, create_graph=True)[0]
        self.gradient = self._slope.detach()

    def network(self, change: Tensor) -> FeedforwardNet:
        """Return the network at weights w_0 + δ, for a change δ (p,)."""
        kept = self._net.weights
        parts = torch.split(self._start + change, [weight.numel() for weight in kept[: self._free]])
        free = [part.view_as(weight) for part, weight in zip(parts, kept, strict=False)]
        return self._net.with_weights([*free, *kept[self._free :]])

    def value(self, change: Tensor) -> Tensor:
        """Return f(w_0 + δ)."""
        return outputs(self.network(change), self._x)[0]

    def quadratic_term(self, change: Tensor) -> float:
        """Return 1/2 δ^T H(ξ) δ, the Lagrange remainder at a change δ (p,)."""
        if not self._slope.requires_grad:  # f is linear in these weights
            return 0.0
        return float(self.value(change) - self._at_start - self.gradient @ change)

    def quadratic_term_gradient(self, change: Tensor) -> Tensor:
        """Return the gradient (p,) of `quadratic_term` by δ."""
        at = change.detach().requires_grad_()
        return torch.autograd.grad(self.value(at), at)[0] - self.gradient

    def hessian_product(self, v: Tensor) -> Tensor:
        """Return H v (p,) at w_0."""
        if not self._slope.requires_grad:
            return torch.zeros_like(v)
        # v as an argument of `grad` makes torch import sympy
        return torch.autograd.grad(self._slope @ v, self._at, retain_graph=True)[0]


def hessian_norm(expansion: Expansion) -> tuple[float, float, Tensor]:
    """Return the spectral norm |λ| of the Hessian H at w_0, |H v - λ v|, and its eigenvector v.

    By `lanczos`, v (p,); an eigenvalue lies within the residual |H v - λ v| of λ.
    """
    like = expansion.origin
    some = torch.ones_like(like) / math.sqrt(expansion.size)
    if not expansion.hessian_product(some).any():  # Lanczos starts with H v, which must not be 0
        return 0.0, 0.0, some
    kept = min(LANCZOS_VECTORS, expansion.size)
    value, vector = lanczos(expansion.hessian_product, like, tol=TOLERANCE, ncv=kept)
    residual = torch.linalg.vector_norm(expansion.hessian_product(vector) - value * vector)
    return abs(value), float(residual), vector


def largest_terms(
    expansion: Expansion,
    radius: float,
    *,
    eigenvector: Tensor,
    directions: int,
    generator: np.random.Generator,
) -> dict[str, float]:
    """Return the largest |quadratic term| at changes δ with |δ| = ``radius``, by ways to search.

    ``random`` are as many ``directions``, ``gradient`` and ``eigenvector`` both signs of that of f
    and of the Hessian's ``eigenvector`` (p,), ``ascent`` starts from the best of each: by
    δ <- radius · g/|g|, where g is the term's gradient. At a quadratic function this is the power
    iteration. All bound the supremum from below.
    """
    # Drawn one by one: a network has too many weights to keep all directions.
    random = (
        torch.from_numpy(generator.standard_normal(expansion.size)).to(expansion.origin)
        for _ in range(directions)
    )
    gradient = expansion.gradient
    signed = {"gradient": (gradient, -gradient), "eigenvector": (eigenvector, -eigenvector)}
    largest, climbed = {}, []
    for way, vectors in ({"random": random} | signed).items():
        # a gradient of 0 has no direction
        changes = (radius / (float(torch.linalg.vector_norm(v)) or math.inf) * v for v in vectors)
        terms = ((abs(expansion.quadratic_term(change)), change) for change in changes)
        largest[way], best = max(terms, key=lambda pair: pair[0])
        climbed.append(_climb(expansion, best, radius))
    return largest | {"ascent": max(climbed)}


def _climb(expansion: Expansion, change: Tensor, radius: float) -> float:
    term, last = expansion.quadratic_term(change), 0.0
    for _ in range(ASCENT_STEPS):
        uphill = expansion.quadratic_term_gradient(change) * (1.0 if term >= 0 else -1.0)
        length = torch.linalg.vector_norm(uphill)
        if not length > 0:
            break
        change = radius / length * uphill
        last, term = term, expansion.quadratic_term(change)
        if abs(term) <= (1 + LEAST_RISE) * abs(last):
            break
    return max(abs(last), abs(term))


def linearity(
    net: FeedforwardNet, x: Tensor, *, radii: Sequence[float], directions: int, seed: int
) -> list[dict[str, float | None]]:
    """Return, for each radius, the largest values over expansions at the rows of ``x`` (n, d).

    As columns of the table `linearity`. ``directions`` random ones are searched, drawn with the
    ``seed``. A bound is None where its theorem says nothing.
    """
    rows: list[dict[str, float | None]] = [{"radius": radius} for radius in radii]
    for sample in x:
        whole, fixed = (Expansion(net, sample, last_fixed=last) for last in (False, True))
        norm, residual, vector = hessian_norm(whole)
        norm_fixed, _, vector_fixed = hessian_norm(fixed)
        for row, radius in zip(rows, radii, strict=True):
            rng = generator(seed, "batch")  # any stream but the initialisation's
            search = partial(largest_terms, radius=radius, directions=directions, generator=rng)
            terms = search(whole, eigenvector=vector)
            terms_fixed = search(fixed, eigenvector=vector_fixed)
            bound, bound_fixed = bounds(net, sample, radius)
            values = {
                "hessian_norm": norm,
                "hessian_residual": residual,
                "hessian_norm_fixed": norm_fixed,
                "quadratic_term": max(terms.values()),
                **{f"quadratic_{way}": term for way, term in terms.items()},
                "quadratic_term_fixed": max(terms_fixed.values()),
                "bound": bound,
                "bound_fixed": bound_fixed,
            }
            for name, value in values.items():  # a network has a bound at all samples or at none
                row[name] = value if value is None else max(value, row.get(name) or 0.0)
    return rows


def bounds(net: FeedforwardNet, x: Tensor, radius: float) -> tuple[float | None, float | None]:
    """Return Theorem 1's bound, of two-layer networks, and Theorem 4's, where neurons are linear.

    Both at a sample ``x`` (d,). Sub-models of a two-layer network are its neurons; none has a bound
    with kinks or skips.
    """
    if net.dense or net.activation.kinks:
        return None, None
    weight, scale, whole = float(net.weights[-1].abs().max()), math.sqrt(net.hidden[-1]), None
    if len(net.hidden) == 1:
        norm = float(torch.linalg.vector_norm(x)) * net.scale(1)
        smoothness = theory.two_layer_smoothness(net.activation, norm, weight + radius)
        whole = theory.assembly_bound(smoothness, radius, scale)
    *_, products = gradient_products(net, x)
    smoothness = theory.slope_bounds(net.activation)[1] * float(products.diagonal().max())
    return whole, weight * theory.assembly_bound(smoothness, radius, scale)
