"""The layer-wise kernel is the product of explicit Jacobians, and behaves like a kernel."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.memory import STATUS, peak
from ntk_conditioning import ntk
from ntk_conditioning.angles.smallest_angle import UnresolvedGradientError
from ntk_conditioning.kernels import empirical
from ntk_conditioning.kernels.sampled import sampled_ntks
from ntk_conditioning.networks import activations, gradient_tiles
from ntk_conditioning.networks.gradient_tiles import factor_bytes
from ntk_conditioning.networks.mlp import NotLinearError, linear_embedding_map
from ntk_conditioning.networks.modules import MlpModule
from ntk_conditioning.spectra.condition_numbers import conditioning, conditioning_from_factor
from tests.ntk_conditioning.gradients import float32_products, inputs, jacobian, network
from tests.ntk_conditioning.kernels.networks_to_differentiate import assert_close


@given(
    n=st.integers(1, 40),
    n2=st.integers(1, 40),
    tile=st.sampled_from([None, *range(1, 20)]),
    panel=st.integers(0, 45),
    depth=st.integers(0, 4),
    activation=st.sampled_from(["relu", "linear", "tanh", "leaky_relu", "selu"]),
)
def test_both_kernels_are_products_of_explicit_jacobians(n, n2, tile, panel, depth, activation):
    mlp, x, x2 = network(4, depth=depth, activation=activation), inputs(n, 4), inputs(n2, 4, seed=2)
    options = {"tile": tile, "memory": 1 + 2 * panel * factor_bytes(mlp, mlp.dtype)}
    module = MlpModule(mlp.weights, mlp.activation)
    j, j2 = (jacobian(module, (rows,)).squeeze(1) for rows in (x, x2))
    last = slice(-mlp.weights[-1].numel(), None)  # of which the NNGP kernel is made
    for kernel, part in ((ntk, slice(None)), (empirical.nngp, last)):
        k = kernel(mlp, x, **options)
        assert torch.equal(k, k.T)
        assert_close(k, j[:, part] @ j[:, part].T)
        assert_close(kernel(mlp, x, x2, **options), j[:, part] @ j2[:, part].T)


class Precisions(TorchDispatchMode):
    seen = frozenset()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket is torch.ops.aten.mm:
            self.seen |= {torch.get_float32_matmul_precision()}
        return func(*args, **kwargs or {})


COMPUTE = [empirical.ntk, lambda mlp, x: empirical.ntk(mlp, x, x[:130])]
COMPUTE += [lambda mlp, x: torch.tensor(empirical.min_angle(mlp, x, tile=8, memory=1).angle)]


@pytest.mark.parametrize("compute", COMPUTE)
def test_a_caller_who_allows_less_precision_gets_the_same(compute):
    """Where the processor has bfloat16, products of this size would be other ones."""
    mlp, x = network(64, width=96, dtype=torch.float32), inputs(260, 64).float()
    with float32_products("highest"):
        expected = compute(mlp, x)
    with float32_products("medium"), Precisions() as precisions:
        assert torch.equal(compute(mlp, x), expected)
    assert precisions.seen == {"highest"}


@pytest.mark.usefixtures("one_thread")
def test_threads_with_tiles_of_their_own_make_the_same_kernel():
    mlp, x = network(3, depth=2), inputs(1500, 3)
    expected = empirical.ntk(mlp, x), empirical.ntk(mlp, x, x[:800])
    torch.set_num_threads(2)
    assert gradient_tiles.tiling(1500 * 1500 // 2, x.device) == (gradient_tiles.PIECE, 2)
    k = empirical.ntk(mlp, x)
    assert torch.equal(k, k.T)
    assert_close(k, expected[0])
    assert_close(empirical.ntk(mlp, x, x[:800]), expected[1])


def test_a_kernel_that_rounding_decides_is_refused():
    """Each layer stretches what differs by rounding: in float32 300 of tanh, in float64 not."""
    mlp, x = network(5, depth=300, width=64, activation="tanh"), inputs(30, 5)
    assert empirical.ntk(mlp, x).isfinite().all()
    for columns in ((), (x[:7].float(),)):
        with pytest.raises(UnresolvedGradientError, match=r"over 300 layers; .*, float64, or"):
            empirical.ntk(mlp.to(torch.float32), x.float(), *columns)


def of_mlp(n, memory):
    """Return what computes a kernel, after libraries are loaded; gradients at once take 80 MB."""
    mlp, x = network(depth=5, width=400), inputs(n)
    empirical.ntk(mlp, x[:300], tile=256, memory=1)
    return lambda: empirical.ntk(mlp, x, tile=256, memory=memory)


def of_images(n, memory):
    """Here the gradients with respect to the largest weight alone take 110 MB at once."""
    layers = nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 128, 3), nn.ReLU()
    pooled = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 1))
    model, x = pooled.double(), torch.randn(n, 3, 8, 8, dtype=torch.float64)
    ntk(model, x[:4])
    return lambda: ntk(model, x, memory=memory)


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells the peak")
@pytest.mark.parametrize(("make", "n"), [(of_mlp, 2500), (of_images, 700)])
def test_peak_memory_is_the_kernel_and_what_gradients_may_take(make, n, monkeypatch):
    memory = 40_000_000
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")  # without gaps in the heap
    growth = peak(make, n, memory, threads=1).growth
    # 15 MB hold what products and their packing take beside
    assert 8 * n**2 < growth < 8 * n**2 + memory + 15_000_000


@pytest.mark.parametrize(("depth", "width"), [(0, 16), (1, 16), (10, 16), (3, 3)])
@pytest.mark.parametrize("n", [4, 40])
def test_linear_factors_give_the_kernels_and_their_ranks(n, depth, width):
    mlp, x = network(6, depth=depth, width=width, activation="linear"), inputs(n, 6)
    embedded, factor = x @ linear_embedding_map(mlp), empirical.linear_factor(mlp, x)
    kernel = empirical.ntk(mlp, x)
    assert embedded.shape == (n, min(6, width))
    assert_close(embedded @ embedded.T, empirical.nngp(mlp, x))
    assert_close(factor @ factor.T, kernel)
    by_kernel, by_factor = conditioning(kernel.numpy()), conditioning_from_factor(factor.numpy())
    assert by_kernel.numerical_rank == by_factor.numerical_rank == min(n, 6)
    assert (by_kernel.kappa is None) == (by_factor.kappa is None) == (n > 6)
    assert by_factor.kappa_nonzero == pytest.approx(by_kernel.kappa_nonzero, abs=0, rel=1e-10)
    for factor in (linear_embedding_map, partial(empirical.linear_factor, x=x)):
        with pytest.raises(NotLinearError, match="relu has no linear factor"):
            factor(network(6))


# more samples than units, or than dimensions, too: factors have other shapes then
SHAPES = [("relu", 3, 24, 6, 9), ("tanh", 4, 12, 5, 3), ("tanh", 2, 4, 7, 9)]


@pytest.mark.parametrize(("name", "depth", "width", "n", "d"), SHAPES)
def test_sampled_kernels_have_the_distribution_of_networks(name, depth, width, n, d, monkeypatch):
    memory = 2**28 if width > 4 else 1  # the last in parts
    monkeypatch.setattr("ntk_conditioning.kernels.sampled.MEMORY", memory)
    x = torch.nn.functional.normalize(inputs(n, d))
    size = {"depth": depth, "width": width, "activation": activations.get(name)}
    rng = np.random.default_rng(1)
    ours = sampled_ntks(x.numpy(), **size, networks=1000, generator=rng)
    theirs = np.stack([empirical.ntk(network(d, **size, seed=s), x) for s in range(1000)])

    def numbers(k):
        eigenvalues, trace = np.linalg.eigvalsh(k), np.trace(k, axis1=1, axis2=2)
        return eigenvalues[:, -1], eigenvalues[:, 0], k[:, 0, 1], np.log(trace)

    for one, other in zip(numbers(ours), numbers(theirs), strict=True):
        assert ks_2samp(one, other).pvalue > 1e-3


def test_sampled_gradients_of_equal_or_parallel_samples_are_equal_or_parallel():
    x = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 2.0, 0.0]])
    size = {"depth": 5, "width": 16, "networks": 3, "activation": activations.get("relu")}
    for k in sampled_ntks(x, **size, generator=np.random.default_rng(0)):
        np.testing.assert_allclose(k[0], k[1], rtol=1e-12)
        np.testing.assert_allclose(2 * k[2], k[3], rtol=1e-10)
