"""Kernels of networks on blocks: whole spectra, extremes or factors, within a budget of memory."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from ntk_conditioning.memory import NotEnoughMemoryError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.spectra.block_kernels import BlockKernel, MemoryBudget
from ntk_conditioning.spectra.empirical_kernel import EmpiricalKernel
from ntk_conditioning.spectra.infinite_kernel import InfiniteKernel

KERNELS = ("empirical_ntk", "empirical_nngp", "infinite_ntk", "nngp")
N = 60


def kernel(
    name: str,
    *,
    below: int = N + 1,
    available: int = 10**10,
    activation: str = "relu",
    depth: int = 2,
    dtype: torch.dtype = torch.float64,
) -> BlockKernel:
    budget = MemoryBudget(available, full_spectrum_below=below)
    sigma = activations.get(activation)
    if "empirical" not in name:
        return InfiniteKernel(sigma, depth, name, budget)
    chance, width = np.random.default_rng(1), 150
    mlp = init_mlp(6, depth=depth, width=width, activation=sigma, generator=chance, dtype=dtype)
    return EmpiricalKernel(mlp, name, budget)


def samples(*, equal: int = 0) -> np.ndarray:
    """Return samples of which so many, the last, are equal to the first."""
    x = np.random.default_rng(0).standard_normal((N, 6))
    x[N - equal :] = x[:equal]
    return x


@pytest.mark.parametrize("name", KERNELS)
def test_from_a_size_on_only_the_extremes_are_computed(name):
    whole = kernel(name, below=N + 1).conditioning(samples())
    extremes = kernel(name, below=N).conditioning(samples())
    assert (whole.method, extremes.method) == ("spectrum", "extremes")
    assert (extremes.eigenvalues, extremes.effective_rank) == (None, None)
    assert len(whole.eigenvalues) == whole.numerical_rank == extremes.numerical_rank == N
    assert extremes.lambda_max == pytest.approx(whole.lambda_max, abs=0, rel=1e-12)
    assert extremes.kappa == pytest.approx(whole.kappa, abs=0, rel=1e-8)
    assert 0 < extremes.kappa_error < 1e-6


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_with_equal_samples_has_no_smallest_eigenvalue(name):
    x = samples(equal=10)
    whole, extremes = (kernel(name, below=below).conditioning(x) for below in (N + 1, N))
    assert whole.numerical_rank == extremes.numerical_rank == N - 10
    assert whole.kappa is extremes.kappa is extremes.lambda_min is None
    assert extremes.kappa_nonzero == pytest.approx(whole.kappa_nonzero, abs=0, rel=1e-3)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("network", [{"activation": "linear"}, {"depth": 0}])
def test_linear_networks_need_no_kernel_and_no_memory(name, network):
    linear = kernel(name, below=1, available=0, **network)
    linear.require_memory(10**6)
    found = linear.conditioning(samples()[:5])
    assert found.method == "factor"
    assert found.effective_rank is not None
    assert 0 < found.kappa_error < 1e-10


def test_float32_is_flagged():
    found = kernel("empirical_ntk", below=N, dtype=torch.float32).conditioning(samples())
    assert (found.method, found.dtype, found.reduced_precision) == ("extremes", "float32", True)


@pytest.mark.parametrize("name", KERNELS)
def test_the_error_names_the_largest_size_that_fits(name):
    large = 20_000
    small = kernel(name, available=2 * 10**9)
    with pytest.raises(NotEnoughMemoryError, match="take fewer samples") as caught:
        small.require_memory(large)
    text = str(caught.value)
    assert f"a kernel of {large} samples in float64 needs" in text
    assert ("in float32:" in text) == ("empirical" in name)
    fits = int(re.search(r"at most (\d+) samples fit", text)[1])
    assert 0 < fits < large
    small.require_memory(fits)
    with pytest.raises(NotEnoughMemoryError):
        small.require_memory(fits + 1)
