"""Kernels of infinite width on the unit sphere beside what agarwal2021deep proves of them."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ntk_conditioning import tables
from ntk_conditioning.duals.fixed_points import SLOPE_ONE, fixed_point
from ntk_conditioning.duals.hermite import expansion
from ntk_conditioning.kernels.depth_profiles import along_depth
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation, Array
from ntk_conditioning.spectra.condition_numbers import conditioning_from_factor
from ntk_conditioning.theory import DomainError
from ntk_conditioning.theory import agarwal2021deep as theory

RESOLVED = 100  # what decays counts until it is this many times its error


def compare(
    x: Array, *, depths: Iterable[int], activation: Activation | str
) -> Iterator[dict[str, Any]]:
    """Yield both kernels of the samples ``x`` (n, d), of norm 1, at every depth with their bounds.

    As rows of the table `bounds`, but for its names. Rates are logarithms of factors per layer,
    since the next shallower depth, of what was at most 1/2 there, if both depths resolve it.

    Raises:
        DomainError: if two samples are equal or opposite, or the activation is affine.
        SamplesError: if a norm is not 1, see `along_depth`.
    """
    sigma = activations.get(activation)
    common, fixed = _samples(x, sigma), fixed_point(sigma)
    # a slope of 1 as of leaky ReLUs, for which Lemma 35 says nothing
    slope = 1.0 if abs(fixed.slope - 1) <= SLOPE_ONE else fixed.slope
    shallower: dict[str, dict[str, Any]] = {}
    for kernels in along_depth(x, depths=depths, activation=sigma):
        for kernel, correlations in (("nngp", kernels.nngp), ("infinite_ntk", kernels.ntk)):
            low, high = correlations.eigenvalues
            row: dict[str, Any] = dict.fromkeys(tables.get("bounds").schema.names) | common
            row |= {
                "dual_slope": fixed.slope_at_one,
                "fixed_point": fixed.rho,
                "kernel": kernel,
                "depth": kernels.depth,
                "lambda_min": 1 + low,
                "lambda_max": 1 + high,
                "lambda_error": correlations.eigenvalue_error,
                "correlation_max": float(np.abs(correlations.pairs).max()),
                "correlation_error": correlations.error,
            }
            if correlations.excess:
                row["excess"], row["excess_error"] = correlations.excess
                row["kappa"] = 1 + row["excess"]
            if kernel == "nngp":
                row["distance"] = float(np.abs(correlations.pairs - fixed.rho).max())
                row["distance_error"] = correlations.error + fixed.error
            row |= _bounds(row, slope)
            if before := shallower.get(kernel):
                layers = row["depth"] - before["depth"]
                for name, quantity in (("correlation", "correlation_max"), ("excess", "excess")):
                    values, error = (before[quantity], row[quantity]), f"{name}_error"
                    if None in values or values[0] > 0.5:
                        continue
                    if min(values) >= RESOLVED * max(before[error], row[error]):
                        row[f"{name}_rate"] = math.log(values[1] / values[0]) / layers
            shallower[kernel] = row
            yield row


def _samples(x: Array, activation: Activation) -> dict[str, Any]:
    """Return the samples' number, dimension and separations, and the activation's numbers."""
    (start,) = along_depth(x, depths=[0], activation="linear")
    delta = float(np.minimum(1 - start.nngp.pairs, 1 + start.nngp.pairs).min())
    if delta <= start.nngp.error:
        raise DomainError("two samples are equal or opposite; the theorems ask for none")
    gram = conditioning_from_factor(x)
    series = expansion(activation, count=2)
    mean = float(abs(series.coefficients[0]))
    affine = series.non_linearity <= series.error  # which the theorems refuse
    return {
        "n": len(x),
        "d": x.shape[1],
        "delta_a": delta,
        "delta_b": gram.lambda_min if gram.kappa is not None else None,
        "mean": mean * activation.gain if mean > series.errors[0] else 0.0,
        "mu": 0.0 if affine else series.non_linearity,
        "mu_tilde": series.non_affinity,
    }


def _bounds(row: Mapping[str, Any], slope: float) -> dict[str, Any]:
    """Return the bounds of Sections 3.1 to 3.3, or Lemma 35's if the activation has a mean."""
    names = ("depth", "n", "mu", "delta_a", "delta_b", "mean")
    depth, n, mu, delta, delta_b, mean = (row[name] for name in names)
    ntk, layers, bounds = row["kernel"] == "infinite_ntk", {}, {}
    if mean == 0:
        layers["l_0"] = theory.separating_depth(delta, mu)
        layers["l_kappa"] = theory.first_depth(n, delta, mu, ntk=ntk)
        bounds["correlation_bound"] = theory.correlation_bound(depth, delta, mu, ntk=ntk)
        for name, proof in (("excess_bound_a", False), ("excess_bound_a_proof", True)):
            bounds[name] = theory.excess_bound(depth, n, delta, mu, ntk=ntk, proof=proof)
        if delta_b is not None:
            layers["l_0_b"] = theory.separating_depth(delta_b, mu)
            bounds["lambda_min_bound"] = 1 - theory.correlation_bound(depth, delta_b, mu, ntk=ntk)
            bounds["excess_bound_b"] = theory.excess_bound_b(depth, n, delta_b, mu, ntk=ntk)
    elif not ntk:
        numbers = {"rho": row["fixed_point"], "mu": row["mu_tilde"], "slope": slope}
        bound = theory.convergence_bound(depth, delta, dual_at_0=mean**2, **numbers)
        bounds["distance_bound"] = np.asarray(bound)
    return layers | {k: None if math.isnan(b) else float(b) for k, b in bounds.items()}
