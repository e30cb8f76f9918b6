"""A GPU finds what the processor finds; without one the same runs on the processor, in tiles."""

from functools import partial

import numpy as np
import pytest
import torch

from ntk_conditioning.angles.min_angle import min_angle
from ntk_conditioning.kernels import empirical
from ntk_conditioning.spectra.conditioning import conditioning
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning
from ntk_conditioning.spectra.panel_matrix import PANEL, scratch_bytes
from ntk_conditioning.transition.feedforward import draw_network
from ntk_conditioning.transition.gradients import layer_angles
from tests.ntk_conditioning import gradients
from tests.ntk_conditioning.gradients import float32_products, inputs

D = 12
X, network = inputs(150, D), partial(gradients.network, D, width=40)
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
def device(request):
    return request.param


@pytest.mark.parametrize("tile", [None, 7])
@pytest.mark.parametrize(("activation", "depth"), [("relu", 0), ("relu", 5), ("tanh", 1)])
def test_kernels_spectra_and_angles_are_those_of_the_processor(device, activation, depth, tile):
    sizes = {"depth": depth, "activation": activation}
    mlp, other = network(**sizes), network(**sizes, device=device)
    expected = empirical.ntk(mlp, X)
    found = empirical.ntk(other, X.to(device), tile=tile)
    assert found.device.type == device
    assert torch.equal(found, found.T)
    largest = float(expected.abs().max())
    assert torch.allclose(found.cpu(), expected, rtol=0, atol=1e-12 * largest)
    if depth == 5:
        whole, extremes = conditioning(expected.numpy()), extreme_conditioning(found)
        assert extremes.lambda_max == pytest.approx(whole.lambda_max, rel=1e-9)
        assert extremes.lambda_min == pytest.approx(whole.lambda_min, rel=1e-8)
        assert extremes.kappa is not None
    expected, found = min_angle(mlp, X), min_angle(other, X.to(device), tile=tile)
    assert (found.i, found.j) == (expected.i, expected.j)
    assert found.angle == pytest.approx(expected.angle, rel=1e-7)


def test_single_precision_is_not_rounded_to_less(device):
    """TF32 keeps 10 bits; a smooth activation lets kernels be compared entry by entry."""
    with float32_products("high"):  # what a caller may have allowed
        model = network(depth=3, activation="tanh", device=device).to(torch.float32)
        found = empirical.ntk(model, X.to(device).float())
    exact = empirical.ntk(network(depth=3, activation="tanh"), X)
    assert float((found.cpu() - exact).abs().max()) < 1e-5 * float(exact.abs().max())


@NEEDS_GPU
def test_a_kernel_is_conditioned_in_its_own_memory():
    n = 4 * PANEL
    factor = torch.randn(n, 2 * n, dtype=torch.float64, device="cuda")
    k = factor @ factor.T
    del factor
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    assert extreme_conditioning(k, overwrite=True).kappa is not None
    taken = torch.cuda.max_memory_allocated() - before
    assert taken < scratch_bytes(n, itemsize=8) < k.nbytes


def test_angles_between_neurons_are_those_of_the_processor(device):
    def angles(where):
        options = {"activation": "tanh", "generator": np.random.default_rng(3), "device": where}
        return layer_angles(draw_network(D, [30, 20, 30], **options), X[:3].to(where))

    for expected, found in zip(angles("cpu"), angles(device), strict=True):
        assert found.cos_mean == pytest.approx(expected.cos_mean, rel=1e-10, abs=1e-15)
        assert found.cos_norm == pytest.approx(expected.cos_norm, rel=1e-8)
