"""Activations against autograd, torch and integration; whatever one says wrongly is named."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

from ntk_conditioning.duals.activation_checks import dual_errors, require_sound
from ntk_conditioning.networks import activations, calculus
from ntk_conditioning.networks.activations import Activation, ActivationError, get

SCALE, OFFSET = activations.normrelu_constants(-1.5975)  # which follow from mean and variance
FUNCTIONAL = "relu", "leaky_relu", "gelu", "selu", "softplus"
TORCH = {name: getattr(functional, name) for name in FUNCTIONAL}
TORCH |= {name: getattr(torch, name) for name in ("erf", "tanh", "sigmoid")}
TORCH |= {"linear": lambda z: z, "leaky_relu-0.2": lambda z: functional.leaky_relu(z, 0.2)}
TORCH["normrelu"] = lambda z: SCALE * (functional.relu(z + 1.5975) + OFFSET)
REGISTERED = activations.names()
KINKS = {"normrelu": -1.5975, "normrelu--0.5": -0.5, "normrelu-2": 2.0, "normrelu-0": 0.0}
SPELLINGS = sorted({*TORCH, *KINKS, *(f"normalized_{name}" for name in REGISTERED)})


def gaussian_expectation(f):
    """Return E f(z), z ~ N(0, 1), on a fine grid of nodes between 0 and the kinks in use."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    edges = np.array([-13, -6, -3, -1.5975, -0.5, 0, 2, 5, 13])
    half = np.diff(edges)[:, None] / 2
    z = edges[:-1, None] + half * (1 + nodes)
    return float(np.sum(f(torch.from_numpy(z)).numpy() * stats.norm.pdf(z) * weights * half))


@pytest.mark.parametrize("name", SPELLINGS)
def test_functions_derivatives_and_gains_are_those_of_torch_and_of_integration(name):
    """Derivatives also at 0 and at every kink of the registered ones."""
    sigma = get(name)
    require_sound(sigma)
    assert max(dual_errors(sigma)) < 1e-13
    kinks = [0.0, *sigma.kinks] if name in REGISTERED else []
    z = torch.from_numpy(np.r_[np.linspace(-9, 9, 1000), kinks]).requires_grad_()
    sigma.function(z).sum().backward()
    torch.testing.assert_close(sigma.derivative(z.detach()), z.grad, rtol=1e-12, atol=1e-15)
    single = z.detach().float()
    assert sigma.function(single).dtype == sigma.derivative(single).dtype == torch.float32
    function = TORCH.get(name, sigma.function)
    torch.testing.assert_close(sigma.function(z), function(z), rtol=1e-14, atol=1e-15)
    square = gaussian_expectation(lambda z: function(z).square())
    assert sigma.gain**2 * square == pytest.approx(1, rel=1e-12)
    if name in KINKS or name.startswith("normalized"):
        assert gaussian_expectation(sigma.function) == pytest.approx(0, abs=1e-13)
        assert sigma.gain == 1


@pytest.mark.parametrize(
    ("name", "meant"),
    [("rellu", "relu"), ("normalised_tanh", "normalized_tanh"), ("norm_relu", "normrelu")]
    + [(name, "") for name in ("leaky_relu--1", "normrelu-7", "normrelu-", "normalized_", "")],
)
def test_unknown_names_are_refused_and_the_closest_is_proposed(name, meant):
    assert not activations.is_known(name)
    advice = f"did you mean '{meant}'.*" if meant else ""
    known = "known: relu, linear.*normrelu-<kink>, normalized_<name>"
    with pytest.raises(activations.UnknownActivationError, match=advice + known):
        get(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [(name, "taken") for name in ("relu", "leaky_relu-0.5", "normrelu--1", "normalized_x")]
    + [(name, "folder") for name in ("Cube", "", "a/b", "..", "-x", "cube 2")],
)
def test_names_that_are_taken_or_no_folder_names_are_refused(name, message):
    with pytest.raises(ActivationError, match=message):
        activations.register(Activation(name, torch.square, lambda z: 2 * z))


def slope(z):
    return 1 - z.tanh().square()


def by_numpy(z):
    return torch.from_numpy(np.tanh(z.numpy()))


def frozen_part(z):
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
    with pytest.raises(ActivationError, match=f"^mine: {re.escape(message)}"):
        require_sound(Activation("mine", function, derivative, **flags))


@pytest.mark.parametrize(
    ("function", "derivative", "message"),
    [
        (torch.square, torch.neg, r"derivative\(-4.0137\) is 4.0137, but function rises by -8"),
        (torch.zeros_like, torch.zeros_like, "zero"),
        (torch.log, torch.reciprocal, "not finite at z = -"),
        (torch.sum, torch.ones_like, "elementwise"),
        (torch.square, lambda z: 2 * z.numpy(), "a ndarray; give functions of torch"),
        (torch.tanh_, slope, "changes its argument"),
        (torch.Tensor.float, torch.ones_like, "elementwise"),
        (torch.ones_like, torch.zeros_like, "a constant"),
    ],
)
def test_functions_that_do_not_compute_are_named(function, derivative, message):
    sigma = Activation("mine", function, derivative)
    with pytest.raises(ActivationError, match=f"mine: .*{message}"):
        _ = sigma.gain, activations.normalized(sigma)
    if "derivative" in message:
        with pytest.raises(ActivationError, match=message):
            activations.normalized(sigma)


def bent(at, *, curvature):
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


def test_functions_may_have_parameters_of_torch():
    prelu = torch.nn.PReLU(init=0.5).double()
    sigma = Activation("prelu", prelu, lambda z: prelu(z.sign()).abs(), kinks=(0.0,))
    assert sigma.values(np.array([-2.0, 3.0])).tolist() == [-1.0, 3.0]
    assert sigma.gain == pytest.approx(math.sqrt(2 / 1.25), rel=1e-12)


PLUGIN = """
from ntk_conditioning.networks.activations import Activation, register
register(Activation("cube", function=lambda z: z**3, derivative=lambda z: 3 * z**2))
"""


@pytest.mark.usefixtures("activation_registry")
def test_a_plugin_registers_once_and_not_by_halves(tmp_path):
    path = tmp_path / "my_activations.py"
    path.write_text(f"{PLUGIN}\n1 / 0")
    with pytest.raises(activations.UserError, match="line 5: ZeroDivisionError"):
        activations.load_plugin(path)
    assert not activations.is_known("cube")
    path.write_text(PLUGIN)
    activations.load_plugin(path)
    activations.load_plugin(str(path))
    assert get("cube").gain == pytest.approx(1 / math.sqrt(15), rel=1e-12)  # E z^6 = 15
    assert get("normalized_cube").gain == 1
