"""Whether an activation computes what it says: its functions, its flags, and its dual's error."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ntk_conditioning.duals import closed_forms
from ntk_conditioning.duals.quadrature import InaccurateDualWarning, QuadratureDual
from ntk_conditioning.errors import one_line
from ntk_conditioning.networks.activations import TOLERATED, Activation, ActivationError, Array
from ntk_conditioning.networks.calculus import gaussian_rule, points_between, wrong_slope

if TYPE_CHECKING:
    from ntk_conditioning.networks.activations import Function

#: Flags are compared with functions up to rounding, kinks sought between these points.
ROUNDING = 1e-9
SEARCHED = np.linspace(-6, 6, 1201) + 1e-4 * np.sqrt(2)


def require_sound(activation: Activation) -> None:
    """Check what a user's activation says of itself.

    Raises `ActivationError` if a function fails, is not elementwise, gives other values each time,
    changes its argument, is not finite, gives another type, or cannot be differentiated or mapped
    by torch; if the derivative is not the function's, which is compared away from kinks; if σ is
    constant; or if a flag does not hold.
    """
    for what in ("function", "derivative"):
        _require_elementwise(activation, what)
    z, _ = gaussian_rule()
    values = activation.values(z)
    _require(
        activation,
        np.ptp(values) > 0,
        "the function is constant, so a network has nothing to train",
    )
    flags: dict[str, Array] = {}
    if activation.homogeneous:
        flags["homogeneous"] = activation.values(2 * z) / 2
    if (slope := activation.negative_slope) is not None:
        flags["negative_slope"] = np.maximum(z, 0) + slope * np.minimum(z, 0)
    if activation.shifted_relu is not None:
        scale, kink, offset = activation.shifted_relu
        flags["shifted_relu"] = scale * (np.maximum(z - kink, 0) + offset)
    for flag, expected in flags.items():
        at = z[np.argmax(np.abs(values - expected))]
        holds = np.allclose(values, expected, rtol=ROUNDING, atol=ROUNDING)
        _require(activation, holds, f"{flag} does not hold at z = {at:.6g}; leave it out")
    activation.require_derivative()
    for what in ("function", "derivative"):
        _require_differentiable(activation, what)
    gain = replace(activation, exact_gain=None).gain
    equal = np.isclose(activation.gain, gain, rtol=1e-6)
    _require(activation, equal, f"exact_gain is {activation.gain:.6g} and not {gain:.6g}")


def dual_errors(activation: Activation) -> tuple[float, float]:
    """Return how far cosines of kernels at infinite width may be wrong, for norms about 1.

    The first is for samples of equal norm, the second for different norms.

    Raises `ActivationError` if the first exceeds `TOLERATED` by kinks that are not declared.
    """
    one = np.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InaccurateDualWarning)
        layer = closed_forms.dual(activation, one)
        different = layer.error
        if any(activation.kinks) and isinstance(layer, QuadratureDual):
            # as between different norms, whose tables take ten times as long
            unaware = replace(activation, kinks=(), exact_gain=activation.gain)
            different = QuadratureDual(unaware, one).error
    if layer.error > TOLERATED:
        kinks = _jumps(activation)
        unknown = [k for k in kinks if k and not np.isclose(k, activation.kinks, atol=1e-6).any()]
        if unknown:
            declared = "".join(f"{kink:.6g}, " for kink in kinks).strip()
            problem = f"the derivative jumps at {unknown[0]:.6g}; declare kinks=({declared})"
            raise ActivationError(f"{activation.name}: {problem}")
    return layer.error, different


def _require(activation: Activation, holds: object, problem: str) -> None:
    if not holds:
        raise ActivationError(f"{activation.name}: {problem}")


def _require_elementwise(activation: Activation, what: str) -> None:
    import torch

    function: Function = getattr(activation, what)
    x = torch.linspace(-3, 3, 24, dtype=torch.float64).reshape(4, 6)
    argument, part, single = x.clone(), x[1:3, ::2], x.float()
    with torch.no_grad():
        try:
            values, again = function(argument), function(x.clone())
            cases = (values, x), (function(part.clone()), part), (function(single), x.float())
        except Exception as error:
            problem = f"the {what} fails: {type(error).__name__}: {one_line(error)}"
            raise ActivationError(f"{activation.name}: {problem}") from error

    def require(holds: object, problem: str) -> None:
        _require(activation, holds, f"the {what} {problem}")

    for value, z in cases:
        is_tensor = isinstance(value, torch.Tensor)
        require(is_tensor, f"returns no tensor, but {type(value).__name__}")
        maps = f"maps {z.dtype} of shape {tuple(z.shape)} to {value.dtype} of shape "
        maps += f"{tuple(value.shape)}; give elementwise functions"
        require((value.shape, value.dtype) == (z.shape, z.dtype), maps)
        wrong = z[~torch.isfinite(value)].tolist()
        require(not wrong, f"is not finite at z = {(wrong or [0])[0]:.6g}")
    require(torch.equal(argument, x), "changes its argument, as clamp_ does; copy it")
    require(torch.equal(values, again), "gives other values each time")
    alike = torch.allclose(values[1:3, ::2], cases[1][0], rtol=ROUNDING, atol=ROUNDING)
    require(alike, "is not elementwise: values depend on each other")


def _require_differentiable(activation: Activation, what: str) -> None:
    """Check that torch differentiates and maps a function, as some studies do."""
    import torch

    function: Function = getattr(activation, what)
    z = points_between(activation.kinks)
    x = torch.from_numpy(z).requires_grad_()
    try:
        value = function(x.clone())
        torch.func.vmap(function)(x.detach()[:, None])
        slopes = np.zeros_like(z)  # of what is constant between kinks
        if value.requires_grad:
            slopes = torch.autograd.grad(value.sum(), x)[0].numpy()
    except Exception as error:
        problem = f"{type(error).__name__}: {one_line(error)}".split(". ")[0]
        problem = f"torch cannot differentiate the {what}: {problem}"
        raise ActivationError(f"{activation.name}: {problem}") from error
    values = activation.values if what == "function" else activation.slopes
    if wrong := wrong_slope(z, slopes, values):
        at, slope, rise = wrong
        raise ActivationError(
            f"{activation.name}: torch differentiates the {what} to {slope:.6g} at z = {at:g}, "
            f"where it rises by {rise:.6g}; leave out no_grad and detach"
        )


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
    jumps = (stays > 0.5 * change) & (change > 1e-3 * np.abs(activation.slopes(SEARCHED)).max())
    return [round(float(z), 9) for z in low[jumps]]
