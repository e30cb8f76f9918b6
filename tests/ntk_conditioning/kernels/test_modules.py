"""Kernels of modules, and products with them, are those of their Jacobians."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator, eigsh
from scipy.stats import norm
from torch import nn

from ntk_conditioning import condition, ntk, ntk_operator
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.differentiated_modules import InputsError
from ntk_conditioning.spectra.condition_numbers import KernelError
from ntk_conditioning.spectra.operators import SMOOTHING, condition_operator
from tests.ntk_conditioning.gradients import inputs, jacobian, network
from tests.ntk_conditioning.kernels.networks_to_differentiate import (
    LAYERS,
    USES,
    OfFunction,
    assert_close,
    assert_products,
    kernel,
    slow,
    vision_transformer,
)

OUTPUTS = ["sum", "mean_of_kernels", "full", 1]

pytestmark = pytest.mark.usefixtures("double")


def assert_is_product_of_jacobians(
    model, x, x2=None, *, outputs=("sum",), memories=(None,), tile=None, names=None, selected=None
):
    x2 = x2 or tuple(t[:3].flip(0) for t in x)
    j, j2 = jacobian(model, x, names), jacobian(model, x2, names)
    for output in outputs:
        if output == 1 and j.shape[1] == 1:
            continue
        expected, between = kernel(j, j, output), kernel(j, j2, output)
        options = {"outputs": output, "parameters": selected}
        for memory in memories:
            k = ntk(model, x, memory=memory, tile=tile, **options)
            assert torch.equal(k, k.T)
            assert_close(k, expected)
            k2 = ntk(model, x, x2, memory=memory, tile=tile, **options)
            assert_close(k2, between, size=expected)
        assert_products(ntk_operator(model, x, batch=4, **options), k)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("networks", [*LAYERS, *USES, slow])
def test_layers_and_uses_of_weights(networks, caplog):
    for name, model, x in networks():
        outputs = ["full"] if networks in LAYERS else OUTPUTS
        assert_is_product_of_jacobians(model, x, outputs=outputs, memories=[None, 200_000])
        assert name in caplog.text if networks is slow else not caplog.records, name
        assert all("samples are differentiated one by one, wh" in line for line in caplog.messages)
        caplog.clear()


@given(
    widths=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    kind=st.sampled_from(["linear", "sequence", "convolution"]),
    n=st.integers(1, 6),
    n2=st.integers(1, 6),
    memory=st.integers(1, 30_000),
    tile=st.sampled_from([None, 1, 2, 5]),
    outputs=st.sampled_from(OUTPUTS[:-1]),
    bias=st.booleans(),
)
@settings(max_examples=40)
def test_any_network_in_panels_of_any_size(widths, kind, n, n2, memory, tile, outputs, bias):
    lazy = partial(nn.LazyConv1d, kernel_size=2, padding=1) if kind[0] == "c" else nn.LazyLinear
    layers = [part for width in widths for part in (lazy(width, bias=bias), nn.Tanh())]
    shape = {"linear": (3,), "sequence": (2, 3), "convolution": (3, 3)}[kind]
    model = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(2))
    samples = (torch.randn(n, *shape),), (torch.randn(n2, *shape),)
    model(*samples[0])
    options = {"outputs": [outputs], "memories": [memory], "tile": tile}
    assert_is_product_of_jacobians(model, *samples, **options)


@pytest.mark.parametrize(
    ("selected", "names"),
    [
        ("head.*", ["head.weight", "head.bias"]),
        (["token", "mlp.*", "!*.bias"], ["token", "mlp.0.weight", "mlp.1.weight", "mlp.3.weight"]),
        (["!*.*"], ["token", "positions", "scale"]),
        (lambda name, p: p.ndim == 3, ["token", "positions"]),
        ("attention.in_proj_weight", ["attention.in_proj_weight"]),
        ("same.weight", ["head.weight"]),  # one tensor of two names
    ],
)
def test_parameters_are_selected_by_names_patterns_and_tests(selected, names):
    model, x = vision_transformer(), (torch.randn(3, 3, 8, 8),)
    model.same = nn.Linear(8, 3)
    model.same.weight = model.head.weight
    assert_is_product_of_jacobians(model, x, selected=selected, names=names)


@pytest.mark.parametrize("outputs", OUTPUTS)
def test_a_complex_weight_counts_as_its_real_and_imaginary_part(outputs):
    def forward(m, x, weight=lambda w: w):  # a layer of Fourier modes and a matrix product
        return ((torch.fft.rfft(x) * weight(m.modes)) @ weight(m.product)).abs() @ m.head

    x, head, parts = torch.randn(4, 4), torch.randn(5, 3), (torch.randn(3, 2), torch.randn(3, 5, 2))
    pairs = OfFunction(partial(forward, weight=torch.view_as_complex), head=head)
    model = OfFunction(forward, head=head)
    for name, part in zip(("modes", "product"), parts, strict=True):
        setattr(pairs, name, nn.Parameter(part))
        setattr(model, name, nn.Parameter(torch.view_as_complex(part)))
    j = jacobian(pairs, (x,))
    assert_close(k := ntk(model, x, outputs=outputs), kernel(j, j, outputs))
    assert_products(ntk_operator(model, x, outputs=outputs), k)


@pytest.mark.parametrize("places", [1, 2, 7])
def test_other_samples_may_have_another_number_of_positions(places, caplog):
    parts = {"a": nn.Linear(3, 30), "b": nn.Linear(30, 30), "o": nn.Linear(30, 1)}
    model = OfFunction(lambda m, x: m.o(m.b(m.a(x).relu()).tanh().mean(1)), **parts)
    assert_is_product_of_jacobians(model, (torch.randn(3, 4, 3),), (torch.randn(2, places, 3),))
    assert ntk(model, torch.full((3, places, 3), torch.nan)).isnan().all()
    assert not caplog.messages  # nothing is slow


def test_a_deep_network_that_stretches_rounding_mixes_no_samples():
    model = nn.Sequential(*(part for _ in range(150) for part in (nn.Linear(64, 64), nn.Tanh())))
    for layer in model[::2]:
        nn.init.normal_(layer.weight, std=1.7 / 8)
    x, few = torch.randn(80, 64), 3
    outputs = model(x)
    assert not torch.allclose(outputs[:few], model(x[:few]), rtol=0, atol=1e-11)
    assert ntk(model, x, parameters="298.*").isfinite().all()


def test_one_of_several_results_is_picked_and_some_parameters_are_selected():
    x, parts = torch.randn(6, 8), {"body": nn.Linear(8, 4), "head": nn.Linear(4, 3)}
    model = OfFunction(lambda m, x: {"logits": m.head(m.body(x).tanh()), "input": x}, **parts)
    only_logits = OfFunction(lambda m, x: m.model(x)["logits"], model=model)
    k = ntk_operator(model, x, output="logits", parameters="head.*")
    assert_products(k, ntk(only_logits, x, parameters="model.head.*"))


def test_solvers_of_scipy_and_torch_take_an_operator():
    mlp, x = network(5), inputs(40, 5)
    largest = torch.linalg.eigvalsh(ntk(mlp, x))[-1]
    k = ntk_operator(mlp, x)
    assert eigsh(k, k=1, return_eigenvectors=False) == pytest.approx(largest.item(), rel=1e-10)
    found, _ = torch.lobpcg(k.as_tensor(), X=torch.randn(40, 1))
    assert found.item() == pytest.approx(largest.item(), rel=1e-6)
    whole = torch.arange(40)
    assert torch.equal(k @ whole, k @ whole.double())
    np.testing.assert_array_equal(k @ whole.numpy(), (k @ whole).numpy())
    for v, problem in ((1j * whole, "the kernel is real"), (whole[:3], r"a block of shape \(3,\)")):
        with pytest.raises(InputsError, match=problem):
            k @ v


def test_threads_that_share_a_module_have_the_same_kernel():
    model, x = nn.Sequential(nn.Linear(5, 50), nn.LayerNorm(50), nn.Linear(50, 1)), inputs(100, 5)
    k, here, others = ntk(model, x), threading.current_thread(), []

    def start_another(*_):  # in the middle of a computation, for which it waits
        if threading.current_thread() is here:
            others.append(pool.submit(ntk, model, x))
            wait(others, timeout=0.05)

    with ThreadPoolExecutor(20) as pool:
        with model.register_forward_pre_hook(start_another):
            assert torch.equal(ntk(model, x), k)
        assert all(torch.equal(other.result(), k) for other in others)
    assert len([*model.parameters()]) == 6


def test_modules_without_forward_mode_are_differentiated_twice_backward(monkeypatch):
    def without(*_):
        raise NotImplementedError("no forward mode")

    model, x = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 1)), torch.randn(9, 5)
    monkeypatch.setattr("ntk_conditioning.kernels.operator.jvp", without)
    assert_products(ntk_operator(model, x), ntk(model, x))


def dense(k):
    operator = aslinearoperator(k)
    operator.trace = k.trace
    return operator


def test_bounds_hold_in_all_of_100_seeds_and_intervals_cover_in_95():
    x = np.random.default_rng(1).standard_normal((120, 20))
    k = infinite.ntk(x, depth=3, activation="relu")
    eigenvalues = np.linalg.eigvalsh(k)
    frobenius, kappa = np.linalg.norm(k), eigenvalues[-1] / eigenvalues[0]
    covered = shares = 0.0
    for seed in range(100):
        found = condition_operator(dense(k), probes=6, steps=16, seed=seed)
        top = found.lambda_max * (1 + 1e-12)
        assert found.lambda_max <= eigenvalues[-1] * (1 + 1e-12) <= top + found.lambda_max_error
        assert found.kappa_bound <= kappa
        covered += found.frobenius[1] <= frobenius <= found.frobenius[2]
        bumps = norm.pdf(found.log10_lambda[:, None], np.log10(eigenvalues), SMOOTHING).mean(1)
        inside = (found.density[:, 1] <= bumps) & (bumps <= found.density[:, 2])
        shares += inside[bumps > 1e-3].mean()
    assert covered >= 95
    assert shares >= 95


def test_the_largest_eigenvalue_is_known_up_to_the_residual_of_its_vector():
    """After one step, of two eigenvalues 2 and 1, that is √((2 - λ)(λ - 1))."""
    found = condition_operator(dense(np.diag([2.0, 1.0])), probes=2, steps=1)
    square = (2 - found.lambda_max) * (found.lambda_max - 1)
    assert found.lambda_max_error == pytest.approx(square**0.5, rel=1e-9)
    found = condition_operator(dense(3 * np.eye(8)))  # where a first step ends all
    assert (found.lambda_max, found.kappa_bound) == pytest.approx((3, 1), rel=1e-12)
    with pytest.raises(KernelError, match="1 probes of 16 steps: give two"):
        condition_operator(dense(np.eye(8)), probes=1)


def test_an_operator_has_a_bound_on_kappa_and_the_same_bytes_again():
    mlp, x = network(20, depth=3, width=64), inputs(120, 20)
    exact, found = condition(ntk(mlp, x)), condition(ntk_operator(mlp, x))
    participation = exact.eigenvalues.sum() ** 2 / np.square(exact.eigenvalues).sum()
    assert found.effective_rank[0] == pytest.approx(participation, rel=1e-2)
    assert found.effective_rank[1] <= participation <= found.effective_rank[2]
    assert exact.lambda_max == pytest.approx(found.lambda_max, rel=1e-9)
    assert 1 < found.kappa_bound <= exact.kappa
    assert np.trapezoid(found.density[:, 0], found.log10_lambda) == pytest.approx(1, abs=1e-3)
    assert repr(found).startswith("kappa is at least ")
    assert np.array_equal(condition(ntk_operator(mlp, x)).density, found.density)
