"""Whether an activation computes what it says: its functions, its flags, and its dual's error."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ntk_conditioning.duals import closed_forms
from ntk_conditioning.duals.quadrature import InaccurateDualWarning, QuadratureDual
from ntk_conditioning.networks.activations import (
    TOLERATED,
    Activation,
    ActivationError,
    Array,
    DualErrors,
    gaussian_nodes,
    wrong_slope,
)

if TYPE_CHECKING:
    from ntk_conditioning.networks.activations import Function

#: Flags are compared with functions up to rounding, kinks sought between these points.
ROUNDING = 1e-9
SEARCHED = np.linspace(-6, 6, 1201) + 1e-4 * np.sqrt(2)


def require_sound(activation: Activation) -> None:
    """Check what an activation of the user's own says of itself.

    Raises `ActivationError` if a function fails, is not elementwise, gives other values each time,
    changes its argument, is not finite, gives another type, or cannot be differentiated or mapped
    by torch; if the derivative is not the function's, which is compared away from kinks; if σ is
    constant; or if a flag does not hold.
    """
    for function in (activation.function, activation.derivative):
        _require_elementwise(activation, function)
    z = gaussian_nodes()
    values = activation.values(z)
    if np.ptp(values) == 0:
        raise _wrong(activation, "the function is constant, so a network has nothing to train")
    expected = {
        "homogeneous": activation.values(2 * z) / 2 if activation.homogeneous else values,
        "negative_slope": _leaky(activation.negative_slope, z, values),
        "shifted_relu": _shifted(activation, z, values),
    }
    for flag, right in expected.items():
        if not np.allclose(values, right, rtol=ROUNDING, atol=ROUNDING):
            at = z[np.argmax(np.abs(values - right))]
            raise _wrong(activation, f"{flag} does not hold at z = {at:.6g}; leave it out")
    activation.require_derivative()
    _require_differentiable(activation)
    if not np.isclose(activation.gain, gain := activation.measured_gain(), rtol=1e-6):
        raise _wrong(activation, f"exact_gain is {activation.gain:.6g} and not {gain:.6g}")


def dual_errors(activation: Activation) -> DualErrors:
    """Return how far cosines of the kernel at infinite width may be wrong.

    Raises `ActivationError` if that is more than `TOLERATED`, by kinks that are not declared.
    """
    one = np.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InaccurateDualWarning)
        layer = closed_forms.dual(activation, one)
        error = uncut = layer.error
        if isinstance(layer, QuadratureDual) and any(activation.kinks):
            # as between different norms, whose tables take ten times as long
            unknowing = replace(activation, kinks=(), exact_gain=activation.gain)
            uncut = QuadratureDual(unknowing, one).error
    if error > TOLERATED:
        kinks = _jumps(activation)
        unknown = [k for k in kinks if k and not np.isclose(k, activation.kinks, atol=1e-6).any()]
        if unknown:
            declared = "".join(f"{kink:.6g}, " for kink in kinks).strip()
            problem = f"the derivative jumps at {unknown[0]:.6g}; declare kinks=({declared})"
            raise _wrong(activation, problem)
    return DualErrors(error, uncut)


def _wrong(activation: Activation, problem: str) -> ActivationError:
    return ActivationError(f"{activation.name}: {problem}")


def _require_elementwise(activation: Activation, function: Function) -> None:
    import torch

    what = "derivative" if function is activation.derivative else "function"
    x = torch.linspace(-3, 3, 24, dtype=torch.float64).reshape(4, 6)
    given = x.clone()
    with torch.no_grad():
        try:
            first, again, part = function(given), function(x.clone()), function(x[1:3, ::2].clone())
            single = function(x.float())
        except Exception as error:
            problem = " ".join(f"{type(error).__name__}: {error}".split())
            raise _wrong(activation, f"the {what} fails: {problem}") from error
    for value, argument in ((first, x), (part, x[1:3, ::2]), (single, x.float())):
        if not isinstance(value, torch.Tensor):
            raise _wrong(activation, f"the {what} returns no tensor, but {type(value).__name__}")
        if value.shape != argument.shape or value.dtype != argument.dtype:
            raise _wrong(
                activation,
                f"the {what} maps {argument.dtype} of shape {tuple(argument.shape)} to "
                f"{value.dtype} of shape {tuple(value.shape)}; give elementwise functions",
            )
        if not torch.isfinite(value).all():
            at = argument[~torch.isfinite(value)][0]
            raise _wrong(activation, f"the {what} is not finite at z = {at:.6g}")
    if not torch.equal(given, x):
        raise _wrong(activation, f"the {what} changes its argument, as clamp_ does; copy it")
    if not torch.equal(first, again):
        raise _wrong(activation, f"the {what} gives other values each time")
    if not torch.allclose(first[1:3, ::2], part, rtol=ROUNDING, atol=ROUNDING):
        raise _wrong(activation, f"the {what} is not elementwise: values depend on each other")


def _require_differentiable(activation: Activation) -> None:
    """Check what networks do with the functions besides calling them.

    Networks differentiate the function in some studies, and the derivative where second derivatives
    are needed: for sharpness and for angles between gradients.
    """
    import torch

    z = activation.checked_at()
    x = torch.from_numpy(z).requires_grad_()
    both = (activation.function, activation.values), (activation.derivative, activation.slopes)
    for (function, values), what in zip(both, ("function", "derivative"), strict=True):
        try:
            value = function(x.clone())
            torch.func.vmap(function)(x.detach()[:, None])
            slopes = np.zeros_like(z)  # of what is constant between kinks
            if value.requires_grad:
                slopes = torch.autograd.grad(value.sum(), x)[0].numpy()
        except Exception as error:
            problem = " ".join(f"{type(error).__name__}: {error}".split()).split(". ")[0]
            raise _wrong(activation, f"torch cannot differentiate the {what}: {problem}") from error
        if found := wrong_slope(z, slopes, values):
            at, slope, rise = found
            raise _wrong(
                activation,
                f"torch differentiates the {what} to {slope:.6g} at z = {at:g}, where it rises by "
                f"{rise:.6g}; leave out no_grad and detach",
            )


def _leaky(slope: float | None, z: Array, values: Array) -> Array:
    return values if slope is None else np.maximum(z, 0) + slope * np.minimum(z, 0)


def _shifted(activation: Activation, z: Array, values: Array) -> Array:
    if activation.shifted_relu is None:
        return values
    scale, kink, offset = activation.shifted_relu
    return np.asarray(scale * (np.maximum(z - kink, 0) + offset))


def _jumps(activation: Activation) -> list[float]:
    """Return where the derivative jumps: its change between two points stays as they approach."""
    low, high = SEARCHED[:-1], SEARCHED[1:]
    change = np.abs(np.diff(activation.slopes(SEARCHED)))
    for _ in range(40):
        middle = (low + high) / 2
        left, at, right = (activation.slopes(points) for points in (low, middle, high))
        lower = np.abs(at - left) > np.abs(right - at)
        low, high = np.where(lower, low, middle), np.where(lower, middle, high)
    stays = np.abs(activation.slopes(high) - activation.slopes(low))
    found = (stays > 0.5 * change) & (change > 1e-3 * np.abs(activation.slopes(SEARCHED)).max())
    return [round(float(z), 9) for z in low[found]]
