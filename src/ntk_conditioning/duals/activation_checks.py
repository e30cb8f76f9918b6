"""Whether an activation computes what it says: its functions, its flags, and its dual's error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ntk_conditioning.duals import closed_forms
from ntk_conditioning.duals.piecewise_linear import pieces_of
from ntk_conditioning.duals.quadrature import InaccurateDualWarning, QuadratureDual
from ntk_conditioning.errors import one_line
from ntk_conditioning.networks.activations import Activation, ActivationError
from ntk_conditioning.networks.calculus import gaussian_rule, points_between, wrong_slope

if TYPE_CHECKING:
    from ntk_conditioning.networks.activations import Function

#: Flags are compared with functions up to this.
ROUNDING = 1e-9


def require_sound(activation: Activation) -> None:
    """Check what a user's activation says of itself.

    Raises `ActivationError` if a function fails, is not elementwise, gives other values each time,
    changes its argument, is not finite, gives another type, or cannot be differentiated or mapped
    by torch; if the derivative is not the function's, which is compared away from kinks; if σ is
    constant; or if a flag does not hold.
    """
    for what in ("function", "derivative"):
        _require_function(activation, what)
    z, _ = gaussian_rule()
    values, slope = activation.values(z), activation.negative_slope
    problem = "the function is constant, so a network has nothing to train"
    _require(activation, np.ptp(values) > 0, problem)
    flags = {
        "homogeneous": activation.values(2 * z) / 2 if activation.homogeneous else values,
        "negative_slope": values if slope is None else np.where(z > 0, z, slope * z),
    }
    for flag, expected in flags.items():
        at = z[np.argmax(np.abs(values - expected))]
        holds = np.allclose(values, expected, rtol=ROUNDING, atol=ROUNDING)
        _require(activation, holds, f"{flag} does not hold at z = {at:.6g}; leave it out")
    activation.require_derivative()
    gain = replace(activation, exact_gain=None).gain
    equal = np.isclose(activation.gain, gain, rtol=1e-6)
    _require(activation, equal, f"exact_gain is {activation.gain:.6g} and not {gain:.6g}")


def dual_errors(activation: Activation) -> tuple[float, float]:
    """Return how far cosines of kernels at infinite width may be wrong, for norms about 1.

    The first is for samples of equal norm, the second for different norms.
    """
    one = np.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InaccurateDualWarning)
        layer = closed_forms.dual(activation, one)
        if not any(activation.kinks) or pieces_of(activation):
            return layer.error, layer.error
        # as between different norms, whose tables take ten times as long
        unaware = replace(activation, kinks=(), exact_gain=activation.gain)
        return layer.error, QuadratureDual(unaware, one).error


def _require(activation: Activation, holds: object, problem: str) -> None:
    if not holds:
        raise ActivationError(f"{activation.name}: {problem}")


@contextmanager
def _named(activation: Activation, problem: str) -> Iterator[None]:
    """Raise `ActivationError` with a problem and an error's first sentence in its place."""
    try:
        yield
    except Exception as error:
        sentence = f"{type(error).__name__}: {one_line(error)}".split(". ")[0]
        raise ActivationError(f"{activation.name}: {problem}: {sentence}") from error


def _require_function(activation: Activation, what: str) -> None:
    """Check that a function is elementwise, and torch differentiates and maps it as studies do."""
    import torch

    function: Function = getattr(activation, what)
    x = torch.linspace(-3, 3, 24, dtype=torch.float64).reshape(4, 6)
    argument, part = x.clone(), x[1:3, ::2]
    with torch.no_grad(), _named(activation, f"the {what} fails"):
        values, again, of_part = function(argument), function(x.clone()), function(part.clone())
        kinds = [(v.shape, v.dtype) for v in (values, of_part, function(x.float()))]
    expected = [(x.shape, x.dtype), (part.shape, x.dtype), (x.shape, torch.float32)]
    _require(activation, kinds == expected, f"the {what} changes its argument's shape or type")
    infinite = x[~torch.isfinite(values)].tolist()
    _require(activation, not infinite, f"the {what} is not finite at z = {infinite[:1]}")
    kept = torch.equal(argument, x)
    _require(activation, kept, f"the {what} changes its argument, as clamp_ does; copy it")
    _require(activation, torch.equal(values, again), f"the {what} gives other values each time")
    alike = torch.allclose(values[1:3, ::2], of_part, rtol=ROUNDING, atol=ROUNDING)
    _require(activation, alike, f"the {what} is not elementwise: values depend on each other")
    z = points_between(activation.kinks)
    x = torch.from_numpy(z).requires_grad_()
    with _named(activation, f"torch cannot differentiate the {what}"):
        value = function(x.clone())
        torch.func.vmap(function)(x.detach()[:, None])
        slopes = np.zeros_like(z)  # of what is constant between kinks
        if value.requires_grad:
            slopes = torch.autograd.grad(value.sum(), x)[0].numpy()
    of = activation.values if what == "function" else activation.slopes
    if wrong := wrong_slope(z, slopes, of):
        problem = "to {1:.6g} at z = {0:g}, where it rises by {2:.6g}; leave out no_grad and detach"
        raise ActivationError(
            f"{activation.name}: torch differentiates the {what} " + problem.format(*wrong)
        )
