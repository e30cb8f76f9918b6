"""A GPU finds what the processor finds; without one the same runs on the processor, in tiles."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from ntk_conditioning import ntk
from ntk_conditioning.angles.smallest_angle import min_angle
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.modules import make_network
from ntk_conditioning.spectra.condition_numbers import KernelError, conditioning
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning
from ntk_conditioning.training.descent import Descent
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Ensemble, Recorded, waits
from ntk_conditioning.training.trainer import NetworkSpec, Split
from ntk_conditioning.transition.feedforward import draw_network
from ntk_conditioning.transition.gradients import layer_angles
from tests.ntk_conditioning import gradients
from tests.ntk_conditioning.gradients import float32_products, inputs
from tests.ntk_conditioning.kernels.networks_to_differentiate import assert_close
from tests.support.trainings import after, finish

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
    assert_close(found.cpu(), expected)
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
    assert_close(found.cpu(), exact, rel=1e-5)


def test_kernels_of_modules_are_those_of_the_processor_in_either_precision(device):
    torch.manual_seed(1)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.GELU(), nn.GroupNorm(2, 8), nn.Flatten()]
    model, x = nn.Sequential(*layers, nn.Linear(512, 2)).double(), torch.randn(150, 3, 8, 8)
    expected = ntk(model, x.double(), outputs="full")
    found = ntk(model.to(device), x.double().to(device), outputs="full")
    assert found.device.type == device
    assert_close(found.cpu(), expected)
    with float32_products("high"):
        found = ntk(model.float(), x.to(device))  # of the sum of both outputs
    assert_close(found.cpu(), expected.view(150, 2, 150, 2).sum((1, 3)), rel=1e-5)


def test_extremes_of_a_deficient_kernel_are_those_of_the_processor(device):
    """The rank is found, and a negative eigenvalue above rounding is refused, on any device."""
    k = X.double() @ X.double().T  # of rank 12
    expected, found = conditioning(k.numpy()), extreme_conditioning(k.to(device))
    assert (found.numerical_rank, found.kappa) == (expected.numerical_rank, None) == (D, None)
    assert found.lambda_max == pytest.approx(expected.lambda_max, rel=1e-9)
    assert found.kappa_nonzero == pytest.approx(expected.kappa_nonzero, rel=1e-8)
    with pytest.raises(KernelError, match="the smallest eigenvalue is -"):
        extreme_conditioning((k - torch.eye(len(k))).to(device))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("together", [False, True])
def test_trainings_are_those_of_the_processor_and_go_on_from_its_state(device, together, momentum):
    """One of them diverges, so that the others go on in another group."""
    members = [NetworkSpec(seed, rate) for seed in (1, 5) for rate in (0.05, 0.2)]
    members += [NetworkSpec(5, 1e6)]
    codes = {"outputs": "classes", "classes": 3, "dtype": torch.double}
    size = {"d": D, "depth": 2, "width": 16, "outputs": 3, "dtype": torch.double}

    def ensemble(where):
        y = torch.arange(len(X)) % 3
        parts = dict.fromkeys((1, 5), Split(X.to(where), y.to(where)))
        make = partial(make_network, "mlp", **size, activation=activations.get("tanh"))
        loss = make_loss("cross_entropy", **codes, device=where)
        descent = Descent(epochs=3, batch_size=40, momentum=momentum)
        return Ensemble(make, loss, members, parts, None, descent=descent, together=together)

    expected, found, later = ensemble("cpu"), ensemble(device), ensemble(device)
    assert expected.advance(after(5))  # of the second epoch, in its middle
    later.restore(expected.state())
    for each in (expected, found, later):
        finish(each)
    for each in (found, later):
        for name in ("train_loss", "gradient_norm"):
            curves = (some.metrics[name][:, :-1] for some in (each, expected))
            np.testing.assert_allclose(*curves, rtol=1e-10)
        peaks = (some.state()["peak_loss"][:-1] for some in (each, expected))
        np.testing.assert_allclose(*peaks, rtol=1e-10)
        assert each.diverged.tolist() == expected.diverged.tolist() == [-1] * 4 + [1]


@NEEDS_GPU
def test_a_kernel_is_conditioned_with_one_factor_beside_it():
    n = 8192
    factor = torch.randn(n, 2 * n, dtype=torch.float64, device="cuda")
    k = factor @ factor.T
    del factor
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    assert extreme_conditioning(k, overwrite=True).kappa is not None
    taken = torch.cuda.max_memory_allocated() - before
    assert taken < 1.1 * k.nbytes


def test_angles_between_neurons_are_those_of_the_processor(device):
    def angles(where):
        rng = np.random.default_rng(3)
        net = draw_network(D, [30, 20, 30], activation="tanh", generator=rng)
        net = net.with_weights([weight.to(where) for weight in net.weights])
        return layer_angles(net, X[:3].to(where))

    for expected, found in zip(angles("cpu"), angles(device), strict=True):
        assert found["cos_mean"] == pytest.approx(expected["cos_mean"], rel=1e-10, abs=1e-15)
        assert found["cos_norm"] == pytest.approx(expected["cos_norm"], rel=1e-8)


@NEEDS_GPU
def test_what_is_recorded_is_replayed_and_what_waits_is_known():
    total, calls = torch.zeros((), device="cuda", dtype=torch.int64), []

    def add(rows):
        calls.append(rows)
        total.add_(rows[1].sum())

    rows = {1: torch.arange(3, device="cuda")}
    assert not waits(lambda: add(rows))
    assert waits(lambda: rows[1].sum().item())
    assert waits(lambda: torch.tensor([1.0], device="cuda"))
    recorded = Recorded(add, rows)
    for top in (3, 7):
        recorded({1: torch.arange(top, top + 3, device="cuda")})
    assert total.item() == 3 + 12 + 24
    assert len(calls) == 2, "the first by hand, and one to record"
