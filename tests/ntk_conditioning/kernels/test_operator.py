"""Products with a kernel that is never formed are those with the kernel."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import aslinearoperator, eigsh
from scipy.stats import norm
from torch import nn
from torch.utils.checkpoint import checkpoint

from ntk_conditioning import condition, ntk, ntk_operator
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.differentiated_modules import (
    InputsError,
    MixedSamplesError,
    OutputsError,
)
from ntk_conditioning.spectra.condition_numbers import KernelError
from ntk_conditioning.spectra.operators import SMOOTHING, condition_operator
from tests.ntk_conditioning.gradients import inputs, network
from tests.ntk_conditioning.kernels.networks_to_differentiate import (
    LAYERS,
    USES,
    OfFunction,
)

pytestmark = pytest.mark.usefixtures("double")


def assert_products(k, kernel):
    v = torch.randn(len(kernel), 2)
    for given in (v, v[:, 0]):
        torch.testing.assert_close(k @ given, kernel @ given, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(k.diagonal(), kernel.diagonal(), rtol=1e-12, atol=0)
    assert k.trace() == pytest.approx(kernel.trace().item(), rel=1e-12)


@pytest.mark.parametrize("networks", LAYERS + USES)
def test_products_are_those_with_the_kernel(networks):
    for _, model, x in networks():
        before = {key: value.clone() for key, value in model.state_dict().items()}
        for outputs in ["full"] if networks in LAYERS else ["sum", 0, "mean_of_kernels", "full"]:
            k = ntk_operator(model, x, outputs=outputs, batch=4)
            assert_products(k, ntk(model, x, outputs=outputs))
        assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_one_of_several_results_is_picked_and_some_parameters_are_selected():
    """Of a dictionary, as models of language return it."""
    x, parts = torch.randn(6, 8), {"body": nn.Linear(8, 4), "head": nn.Linear(4, 3)}
    model = OfFunction(lambda m, x: {"logits": m.head(m.body(x).tanh()), "input": x}, **parts)
    only_logits = OfFunction(lambda m, x: m.model(x)["logits"], model=model)
    k = ntk_operator(model, x, output="logits", parameters="head.*")
    assert_products(k, ntk(only_logits, x, parameters="model.head.*"))
    with pytest.raises(OutputsError, match="a dict without 'loss'"):
        ntk_operator(model, x, output="loss")


def test_solvers_of_scipy_and_torch_take_it():
    mlp, x = network(5), inputs(40, 5)
    largest = torch.linalg.eigvalsh(ntk(mlp, x))[-1]
    k = ntk_operator(mlp, x)
    assert eigsh(k, k=1, return_eigenvectors=False) == pytest.approx(largest.item(), rel=1e-10)
    found, _ = torch.lobpcg(k.as_tensor(), X=torch.randn(40, 1))
    assert found.item() == pytest.approx(largest.item(), rel=1e-6)


@pytest.mark.parametrize("outputs", ["sum", "mean_of_kernels", "full"])
def test_what_torch_func_cannot_is_multiplied_sample_by_sample(outputs, caplog):
    """As layers that run again in the backward pass."""
    x, tokens = torch.randn(5, 3), torch.randint(0, 5, (5, 2))
    layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    again = OfFunction(lambda m, x: checkpoint(m.layers, x, use_reentrant=False), layers=layers)
    bag = nn.Sequential(nn.EmbeddingBag(5, 3, mode="mean"), nn.Linear(3, 2))
    for model, given in ((again, x), (bag, tokens)):
        kernel = ntk(model, given, outputs=outputs)
        caplog.clear()
        k = ntk_operator(model, given, outputs=outputs)
        (line,) = caplog.messages
        assert line.startswith("samples are differentiated one by one, wh")
        assert_products(k, kernel)


def test_modules_without_forward_mode_are_differentiated_twice_backward(monkeypatch):
    def without(*_):
        raise NotImplementedError("no forward mode")

    model, x = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 1)), torch.randn(9, 5)
    monkeypatch.setattr("ntk_conditioning.kernels.operator.jvp", without)
    assert_products(ntk_operator(model, x), ntk(model, x))


def test_a_sample_that_the_module_does_not_take_and_a_batch_without_samples_are_told_in_a_line():
    model, tokens = nn.Sequential(nn.Embedding(5, 3), nn.Flatten()), torch.zeros(100, 2).long()
    tokens[77, 1] = 5
    k = ntk_operator(model, tokens)
    with pytest.raises(InputsError, match=r"shape \(100, 2\): IndexError: index out of range"):
        k @ torch.ones(100)
    with pytest.raises(InputsError, match="batch=0 is no whole number above zero"):
        ntk_operator(model, tokens, batch=0)


def test_samples_that_mix_are_refused():
    centred = OfFunction(lambda m, x: m.layer(x - x.mean(0)), layer=nn.Linear(3, 1))
    with pytest.raises(MixedSamplesError, match=r"^layer mixes samples"):
        ntk_operator(centred, torch.randn(5, 3))
    with pytest.raises(OutputsError, match="the sum of the outputs is constant"):
        ntk_operator(nn.Sequential(nn.Linear(3, 4), nn.Softmax(1)), torch.randn(5, 3))


@pytest.mark.parametrize(("entry", "words"), [(0.0, "the kernel is zero"), (np.nan, "not finite")])
def test_kernels_without_a_spectrum_are_refused_in_a_line(entry, words):
    k = ntk_operator(nn.Linear(3, 1, bias=False), torch.full((4, 3), entry))
    with pytest.raises(KernelError, match=words):
        condition(k)


def dense(k):
    """Return a kernel that is there as an operator."""
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


def test_an_operator_has_a_bound_on_kappa_and_the_same_bytes_again():
    mlp, x = network(20, depth=3, width=64), inputs(120, 20)
    exact, found = condition(ntk(mlp, x)), condition(ntk_operator(mlp, x))
    frobenius = np.linalg.norm(exact.eigenvalues)
    participation = exact.eigenvalues.sum() ** 2 / frobenius**2
    assert found.lambda_max <= exact.lambda_max * (1 + 1e-12)
    assert exact.lambda_max <= found.lambda_max * (1 + 1e-12) + found.lambda_max_error
    assert 1 < found.kappa_bound <= exact.kappa
    assert found.frobenius[0] == pytest.approx(frobenius, rel=1e-3)
    assert found.effective_rank[0] == pytest.approx(participation, rel=1e-2)
    assert np.trapezoid(found.density[:, 0], found.log10_lambda) == pytest.approx(1, abs=1e-3)
    assert repr(found).startswith("kappa is at least ")
    assert np.array_equal(condition(ntk_operator(mlp, x)).density, found.density)
