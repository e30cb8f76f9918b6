"""Activations: derivatives, constants, names, and files of one's own."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch

from ntk_conditioning import activations
from ntk_conditioning.activations import Activation, ActivationError, UnknownActivationError

NAMES = (*activations.names(), "leaky_relu-0.3")
ALL = (*NAMES, *(f"normalized_{name}" for name in NAMES))

EXACT = {
    "relu": lambda z: max(z, 0),
    "linear": lambda z: z,
    "leaky_relu": lambda z: z if z > 0 else mpmath.mpf(0.01) * z,
    "leaky_relu-0.3": lambda z: z if z > 0 else mpmath.mpf(0.3) * z,
    "erf": mpmath.erf,
    "tanh": mpmath.tanh,
    "gelu": lambda z: z * mpmath.ncdf(z),
    "selu": lambda z: (
        mpmath.mpf("1.0507009873554804934193349852946")
        * (z if z > 0 else mpmath.mpf("1.6732632423543772848170429916717") * mpmath.expm1(z))
    ),
    "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)),
    "softplus": lambda z: mpmath.log1p(mpmath.exp(z)),
}


def mean(function) -> float:
    """Return E function(z) for z ~ N(0, 1) with 30 digits."""
    with mpmath.workdps(30):
        return float(mpmath.quad(lambda z: function(z) * mpmath.npdf(z), [-40, -5, 0, 5, 40]))


def test_every_registered_activation_is_checked_here():
    assert set(NAMES) == set(EXACT)


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_what_they_are_called(name):
    z = np.array([-30.0, -3.0, -0.7, 1e-9, 0.7, 3.0, 30.0])
    exact = [float(EXACT[name](mpmath.mpf(float(value)))) for value in z]
    np.testing.assert_allclose(activations.get(name).values(z), exact, rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("name", ALL)
def test_derivatives_are_those_of_autograd(name):
    sigma = activations.get(name)
    z = torch.linspace(-6, 6, 200, dtype=torch.float64, requires_grad=True)  # not at 0
    (slope,) = torch.autograd.grad(sigma.function(z).sum(), z)
    torch.testing.assert_close(sigma.derivative(z.detach()), slope, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_the_gain_makes_the_second_moment_one(name):
    second = mean(lambda z: EXACT[name](z) ** 2)
    assert activations.get(name).gain == pytest.approx(second**-0.5, rel=1e-12)


def test_the_papers_gains():
    assert activations.get("relu").gain == pytest.approx(math.sqrt(2), rel=1e-15)  # Eq. (1)
    assert activations.get("linear").gain == 1  # Eq. (3)


@pytest.mark.parametrize("name", NAMES)
def test_normalised_activations_have_mean_zero_and_variance_one(name):
    first = mean(EXACT[name])
    variance = mean(lambda z: (EXACT[name](z) - first) ** 2)
    sigma = activations.get(f"normalized_{name}")
    z = np.array([-2.0, -0.3, 0.4, 1.7])
    exact = [(float(EXACT[name](mpmath.mpf(float(v)))) - first) / math.sqrt(variance) for v in z]
    np.testing.assert_allclose(sigma.values(z), exact, rtol=1e-12, atol=1e-13)
    assert sigma.gain == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_homogeneous_means_homogeneous(name):
    sigma = activations.get(name)
    z = np.linspace(-3, 3, 50)
    holds = np.allclose(sigma.values(7 * z), 7 * sigma.values(z), rtol=1e-12)
    assert sigma.homogeneous == holds


@pytest.mark.parametrize("name", NAMES)
def test_kinked_means_that_the_derivative_jumps_at_zero(name):
    sigma = activations.get(name)
    below, above = sigma.slopes(np.array([-1e-12, 1e-12]))
    assert sigma.kinked == (abs(above - below) > 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_float32_stays_float32(name):
    sigma = activations.get(name)
    z = torch.linspace(-2, 2, 5)
    assert sigma.function(z).dtype == sigma.derivative(z).dtype == torch.float32


@pytest.mark.parametrize("name", ["rellu", "normalized_rellu", "leaky_relu-x", "", "normalized_"])
def test_unknown_names_are_refused_with_advice(name):
    assert not activations.is_known(name)
    with pytest.raises(UnknownActivationError) as caught:
        activations.get(name)
    assert "relu" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["relu", "normalized_relu", "leaky_relu-0.5", "Swish", "a/b"])
def test_names_that_are_taken_or_no_names_cannot_be_registered(name):
    with pytest.raises(ActivationError):
        activations.register(
            Activation(name, function=lambda z: z, derivative=lambda z: z.new_ones(z.shape))
        )


PLUGIN = """
from ntk_conditioning.activations import Activation, register
register(Activation("{name}", function=lambda z: z.sin(), derivative=lambda z: z.cos()))
"""


class TestPlugins:
    def test_a_file_registers_an_activation(self, tmp_path):
        path = tmp_path / "mine.py"
        path.write_text(PLUGIN.format(name="sine"))
        activations.load_plugin(path)
        activations.load_plugin(path)  # again, as when a process is asked twice
        assert activations.is_known("normalized_sine")
        # E sin² z = (1 - e^-2) / 2
        second = (1 - math.exp(-2)) / 2
        assert activations.get("sine").gain == pytest.approx(second**-0.5, rel=1e-12)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (None, "mine.py"),
            ("x = 1\n", "regist"),
            ("1 / 0\n", "ZeroDivisionError"),
            ("def (\n", "SyntaxError"),
            (PLUGIN.format(name="relu"), "relu"),
        ],
    )
    def test_what_goes_wrong_is_one_line(self, tmp_path, text, words):
        path = tmp_path / "mine.py"
        if text is not None:
            path.write_text(text)
        with pytest.raises(ActivationError) as caught:
            activations.load_plugin(path)
        assert words in str(caught.value)
        assert str(path) in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


def test_names_need_no_torch():
    import subprocess
    import sys

    program = (
        "import sys\nfrom ntk_conditioning import activations\n"
        "assert activations.is_known('normalized_leaky_relu-0.2')\n"
        "assert activations.get('leaky_relu').gain > 1\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": "src"})
