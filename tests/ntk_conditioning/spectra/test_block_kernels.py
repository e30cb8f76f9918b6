"""Kernels of networks on blocks: whole spectra, extremes or factors, within a budget of memory."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from ntk_conditioning.duals.quadrature import InaccurateDualWarning
from ntk_conditioning.kernels import infinite
from ntk_conditioning.memory import NotEnoughMemoryError
from ntk_conditioning.networks import activations
from ntk_conditioning.spectra.block_kernels import MemoryBudget
from ntk_conditioning.spectra.empirical_kernel import EmpiricalKernel
from ntk_conditioning.spectra.infinite_kernel import InfiniteKernel
from tests.ntk_conditioning.gradients import inputs, network

N = 60
X = inputs(N, 6).numpy()
INFINITE = ["infinite_ntk", "nngp"]
KERNELS = pytest.mark.parametrize("name", ["empirical_ntk", "empirical_nngp", *INFINITE])


def kernel(name, below=N + 1, available=10**10, threads=1, activation="relu", depth=2, **options):
    budget = MemoryBudget(available, below, threads, remedy="lower kernel_size")
    sigma = activations.get(activation)
    if "empirical" not in name:
        return InfiniteKernel(sigma, depth, name, budget)
    mlp = network(6, depth=depth, width=150, activation=sigma, **options)
    return EmpiricalKernel(mlp, name, budget)


@KERNELS
def test_from_a_size_on_only_the_extremes_are_computed(name):
    whole, extremes = (kernel(name, below=below).conditioning(X) for below in (N + 1, N))
    assert (whole.method, extremes.method) == ("spectrum", "extremes")
    assert extremes.kappa == pytest.approx(whole.kappa, abs=0, rel=1e-8)
    assert 0 < extremes.kappa_error < 1e-6
    if name == "empirical_ntk":
        found = kernel(name, below=N, dtype=torch.float32).conditioning(X)
        assert (found.method, found.dtype, found.reduced_precision) == ("extremes", "float32", True)


@KERNELS
@pytest.mark.parametrize("options", [{"activation": "linear"}, {"depth": 0}])
def test_linear_networks_need_no_kernel_and_no_memory(name, options):
    linear = kernel(name, below=1, available=0, **options)
    linear.require_memory(10**6)
    found = linear.conditioning(X[:5])
    assert found.method == "factor"
    assert found.effective_rank is not None
    assert 0 < found.kappa_error < 1e-10
    if "empirical" not in name:
        of = infinite.ntk if name == "infinite_ntk" else infinite.nngp
        k = of(X[:5], depth=options.get("depth", 2), activation="linear")
        assert found.lambda_max == pytest.approx(np.linalg.eigvalsh(k)[-1], rel=1e-12)


@pytest.mark.parametrize("below", [6, 5])  # by the spectrum, and by the extremes
@pytest.mark.parametrize("name", INFINITE)
def test_the_error_of_kappa_contains_that_of_a_kink_that_is_not_declared(name, below):
    exact = activations.normrelu(-3.0)  # exact by its own formula
    bent = replace(exact, name="bent", kinks=())
    x = X[:5] / np.linalg.norm(X[:5], axis=1)[:, None]
    with pytest.warns(InaccurateDualWarning):
        found = kernel(name, below, activation=bent).conditioning(x)
    right = kernel(name, below, activation=exact).conditioning(x)
    assert right.kappa_error < 1e-6 < abs(found.kappa / right.kappa - 1) < found.kappa_error


def refusal(kernel, n):
    with pytest.raises(NotEnoughMemoryError) as caught:
        kernel.require_memory(n)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(": lower kernel_size")
    return text, int(re.search(r"at most (\d+) samples fit", text)[1])


@KERNELS
@pytest.mark.parametrize("below", [1, 14_000, 15_000])  # from there on one copy is enough
def test_the_error_names_the_largest_size_that_fits_if_any(name, below):
    large, small = 30_000, kernel(name, available=2 * 10**9, below=below, threads=4)
    (text, fits), gb = refusal(small, large), small.needed(large) / 1e9
    assert f"a kernel of {large} samples in float64 needs {gb:.1f} GB and 2.0 GB are avail" in text
    assert 0 < fits < large
    assert fits > below or below == 15_000
    small.require_memory(fits)
    refusal(small, fits + 1)
    alone = kernel(name, below=below)  # of threads that each solve a small kernel
    assert (small.needed(5000) > 2 * alone.needed(5000)) == (below > 5000)
    assert refusal(kernel(name, available=1, below=below), large)[1] == 0
