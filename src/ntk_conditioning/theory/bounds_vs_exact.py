"""Kernels of infinite width on the unit sphere beside what agarwal2021deep proves of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.duals.fixed_points import SLOPE_ONE, fixed_point
from ntk_conditioning.duals.hermite import expansion
from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels.along_depth import Correlations, along_depth
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.spectra.conditioning import conditioning_from_factor
from ntk_conditioning.theory import agarwal2021deep as theory

Array = NDArray[np.float64]

# How far norms may be from 1.
UNIT = 1e-9
# What decays counts until it is this many times its error.
RESOLVED = 100
# What is said of normalised activations only.
NORMALISED = (
    "l_0",
    "l_0_b",
    "l_kappa",
    "correlation_bound",
    "lambda_min_bound",
    "excess_bound_a",
    "excess_bound_a_proof",
    "excess_bound_b",
)


class NotOnSphereError(UserError):
    """Some samples do not have norm 1, or two have one direction."""


@dataclass(frozen=True)
class Comparison:
    """A kernel after ``depth`` layers beside its bounds; the fields are columns of `BOUNDS`."""

    kernel: str
    depth: int
    n: int
    d: int
    delta_a: float
    delta_b: float | None
    mean: float
    mu: float
    mu_tilde: float
    dual_slope: float
    fixed_point: float
    l_0: int | None
    l_0_b: int | None
    l_kappa: int | None
    correlation_max: float
    correlation_error: float
    correlation_bound: float | None
    lambda_min: float
    lambda_max: float
    lambda_error: float
    lambda_min_bound: float | None
    kappa: float | None
    excess: float | None
    excess_error: float | None
    excess_bound_a: float | None
    excess_bound_a_proof: float | None
    excess_bound_b: float | None
    distance: float | None
    distance_error: float | None
    distance_bound: float | None
    correlation_rate: float | None = None
    excess_rate: float | None = None

    def after(self, previous: Comparison | None) -> Comparison:
        """Return this comparison with the rates at which its kernel came from a shallower one.

        They are logarithms of factors per layer, of what was at most 1/2 before; None unless both
        depths resolve it.
        """
        if previous is None:
            return self
        layers = self.depth - previous.depth
        return replace(
            self,
            correlation_rate=_rate(
                (previous.correlation_max, previous.correlation_error),
                (self.correlation_max, self.correlation_error),
                layers,
            ),
            excess_rate=_rate(
                (previous.excess, previous.excess_error), (self.excess, self.excess_error), layers
            ),
        )


Measured = tuple[float | None, float | None]


def _rate(before: Measured, after: Measured, layers: int) -> float | None:
    (value, error), (later, later_error) = before, after
    if value is None or error is None or later is None or later_error is None or value > 0.5:
        return None
    if later < RESOLVED * later_error:
        return None
    return math.log(later / value) / layers


def compare(
    x: Array, *, depths: Iterable[int], activation: Activation | str
) -> Iterator[Comparison]:
    """Yield both kernels of the samples ``x`` (n, d), of norm 1, at every depth with their bounds.

    Raises:
        NotOnSphereError: if a norm is not 1, or two samples are equal or opposite.
        DomainError: if the activation is affine.
    """
    sigma = activations.get(activation) if isinstance(activation, str) else activation
    setting = _Setting(x, sigma)
    shallower: dict[str, Comparison] = {}
    for kernels in along_depth(x, depths=depths, activation=sigma):
        for kernel, correlations in (("nngp", kernels.nngp), ("infinite_ntk", kernels.ntk)):
            row = setting.row(kernel, kernels.depth, correlations)
            yield row.after(shallower.get(kernel))
            shallower[kernel] = row


class _Setting:
    """What all rows share: the samples' separations and the numbers of the activation."""

    def __init__(self, x: Array, activation: Activation) -> None:
        off = float(np.abs(np.linalg.norm(x, axis=1) - 1).max())
        if off > UNIT:
            raise NotOnSphereError(
                f"a norm is {off:.2g} from 1; take a dataset with scaling unit_norm"
            )
        self.n, self.d = x.shape
        (start,) = along_depth(x, depths=[0], activation="linear")
        self.delta_a = float(np.minimum(1 - start.nngp.pairs, 1 + start.nngp.pairs).min())
        if self.delta_a <= start.nngp.error:
            raise NotOnSphereError("two samples are equal or opposite; the theorems ask for none")
        gram = conditioning_from_factor(x)
        self.delta_b = gram.lambda_min if gram.kappa is not None else None
        series = expansion(activation, count=2)
        mean = float(abs(series.coefficients[0]))
        self.mean = mean * activation.gain if mean > series.errors[0] else 0.0
        affine = series.non_linearity <= series.error  # which the theorems refuse
        self.mu, self.mu_tilde = 0.0 if affine else series.non_linearity, series.non_affinity
        self.fixed = fixed_point(activation)

    def row(self, kernel: str, depth: int, correlations: Correlations) -> Comparison:
        low, high = correlations.eigenvalues
        excess = correlations.excess
        return Comparison(
            kernel=kernel,
            depth=depth,
            n=self.n,
            d=self.d,
            delta_a=self.delta_a,
            delta_b=self.delta_b,
            mean=self.mean,
            mu=self.mu,
            mu_tilde=self.mu_tilde,
            dual_slope=self.fixed.slope_at_one,
            fixed_point=self.fixed.rho,
            correlation_max=correlations.largest,
            correlation_error=correlations.error,
            lambda_min=1 + low,
            lambda_max=1 + high,
            lambda_error=correlations.eigenvalue_error,
            kappa=1 + excess[0] if excess else None,
            excess=excess[0] if excess else None,
            excess_error=excess[1] if excess else None,
            **self._normalised(kernel, depth),
            **self._uncentred(kernel, depth, correlations),
        )

    def _normalised(self, kernel: str, depth: int) -> dict[str, Any]:
        """Return the bounds of Sections 3.1 to 3.3, None where they say nothing."""
        bounds: dict[str, Any] = dict.fromkeys(NORMALISED)
        if self.mean > 0:
            return bounds
        top, mu = kernel == "nngp", self.mu
        correlation = theory.correlation_bound if top else theory.ntk_correlation_bound
        first = theory.top_layer_depth if top else theory.ntk_depth
        excess = theory.top_layer_excess if top else theory.ntk_excess
        proof = theory.top_layer_excess_of_proof if top else theory.ntk_excess_of_proof
        a = self.n, self.delta_a, mu
        bounds |= {
            "l_0": theory.separating_depth(*a[1:]),
            "l_kappa": first(*a),
            "correlation_bound": _number(correlation(depth, *a[1:])),
            "excess_bound_a": _number(excess(depth, *a)),
            "excess_bound_a_proof": _number(proof(depth, *a)),
        }
        if self.delta_b is not None:
            excess_b = theory.top_layer_excess_b if top else theory.ntk_excess_b
            largest = _number(correlation(depth, self.delta_b, mu))
            bounds |= {
                "l_0_b": theory.separating_depth(self.delta_b, mu),
                "lambda_min_bound": None if largest is None else 1 - largest,
                "excess_bound_b": _number(excess_b(depth, self.n, self.delta_b, mu)),
            }
        return bounds

    def _uncentred(self, kernel: str, depth: int, correlations: Correlations) -> dict[str, Any]:
        """Return the distance from the fixed point and its bound, Section 3.4, of K̄ alone."""
        if kernel != "nngp":
            return dict.fromkeys(("distance", "distance_error", "distance_bound"))
        bound = None
        if self.mean > 0:
            # as of leaky ReLUs, for which Lemma 35 says nothing
            slope = 1.0 if abs(self.fixed.slope - 1) <= SLOPE_ONE else self.fixed.slope
            bound = _number(
                theory.convergence_bound(
                    depth,
                    self.delta_a,
                    rho=self.fixed.rho,
                    mu=self.mu_tilde,
                    slope=slope,
                    dual_at_0=self.mean**2,
                )
            )
        distance = float(np.abs(correlations.pairs - self.fixed.rho).max())
        error = correlations.error + self.fixed.error
        return {"distance": distance, "distance_error": error, "distance_bound": bound}


def _number(bound: Array) -> float | None:
    """Return a bound, or None where there is none."""
    return None if math.isnan(value := float(bound)) else value
