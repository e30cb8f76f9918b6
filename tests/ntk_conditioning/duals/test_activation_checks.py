"""Whatever an activation says wrongly of itself is named before anything is computed with it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ntk_conditioning.duals.activation_checks import dual_errors, require_sound
from ntk_conditioning.networks import activations, calculus
from ntk_conditioning.networks.activations import Activation, ActivationError


@pytest.mark.parametrize("name", [*activations.names(), "normalized_tanh", "normrelu--1"])
def test_the_packages_own_are_sound_and_their_duals_exact(name):
    require_sound(activations.get(name))
    assert max(dual_errors(activations.get(name))) < 1e-13


def slope(z: torch.Tensor) -> torch.Tensor:
    return 1 - z.tanh().square()


def by_numpy(z: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.tanh(z.numpy()))


def frozen_part(z: torch.Tensor) -> torch.Tensor:
    return 1 - z.tanh().detach() * z.tanh()


@pytest.mark.parametrize(
    ("function", "derivative", "flags", "message"),
    [
        (torch.rand_like, slope, {}, "the function gives other values each time"),
        (torch.tanh, torch.rand_like, {}, "the derivative gives other values each time"),
        (torch.tanh, torch.tanh, {}, "derivative(-4.0137) is -0.999347, but function rises by"),
        (torch.tanh_, slope, {}, "the function changes its argument, as clamp_ does"),
        (lambda z: z - z.mean(), slope, {}, "the function is not elementwise"),
        (lambda z: z.sum(), slope, {}, "the function changes its argument's shape or type"),
        (torch.Tensor.double, slope, {}, "the function changes its argument's shape or type"),
        (lambda z: None, slope, {}, "the function fails: AttributeError: 'NoneType'"),
        (torch.tanh, torch.log, {}, "the derivative is not finite at z = [-3.0]"),
        (torch.tanh, lambda z: z.oops, {}, "the derivative fails: AttributeError: "),
        (by_numpy, slope, {}, "torch cannot differentiate the function: RuntimeError: Can't call"),
        (torch.tanh, torch.no_grad()(slope), {}, "torch differentiates the derivative to 0 at"),
        (torch.tanh, frozen_part, {}, "torch differentiates the derivative to 0.0013"),
        (lambda z: z.tanh() if z.max() > -9 else z, slope, {}, "torch cannot differentiate"),
        (torch.ones_like, torch.zeros_like, {}, "the function is constant"),
        (torch.tanh, slope, {"homogeneous": True}, "homogeneous does not hold at z = "),
        (torch.tanh, slope, {"negative_slope": 0.1}, "negative_slope does not hold at z = "),
        (torch.tanh, slope, {"exact_gain": 2.0}, "exact_gain is 2 and not 1.59254"),
    ],
)
def test_what_does_not_hold_is_named(function, derivative, flags, message):
    mine = Activation("mine", function, derivative, **flags)
    with pytest.raises(ActivationError) as raised:
        require_sound(mine)
    assert str(raised.value).startswith(f"mine: {message}")


def bent(at: float, *, curvature: int) -> Activation:
    return Activation(
        "mine",
        lambda z: curvature * z.tanh() + (z - at).clamp(0),
        lambda z: curvature * slope(z) + (z > at).to(z),
        kinks=(at,),
    )


def test_kinks_cause_a_known_error_where_norms_differ_unless_all_is_straight_between():
    straight, curved = (bent(0.5, curvature=curvature) for curvature in (0, 1))
    # where derivatives are checked if no kink is there
    unlucky = bent(float(calculus.POINTS[43]), curvature=1)
    for mine, low, high in ((straight, -1, 1e-13), (curved, 0.01, 0.1), (unlucky, -1, 0.1)):
        require_sound(mine)
        one_norm, different_norms = dual_errors(mine)
        assert one_norm < 1e-13
        assert low < different_norms < high
    assert min(dual_errors(replace(straight, kinks=()))) > 0.01
