"""Modules without a kernel are refused in a line with the remedy, and nothing is left changed."""

import random
import re
import resource
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ntk_conditioning import ntk, ntk_operator
from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.differentiated_modules import (
    InputsError,
    MixedSamplesError,
    ModuleError,
    OutputsError,
    ParametersError,
    TrainingModeError,
)
from tests.ntk_conditioning.gradients import network
from tests.ntk_conditioning.kernels.networks_to_differentiate import OfFunction, vision_transformer

X = torch.linspace(-1, 1, 12).view(4, 3)


linear = partial(nn.Linear, 3, 2)
CENTRED = OfFunction(lambda m, x: x - x.mean(0))
LAZY = nn.Sequential(linear(), nn.LazyBatchNorm1d()).eval()
FROZEN = linear().requires_grad_(False)
NO_STATISTICS = nn.Sequential(linear(), nn.BatchNorm1d(2, track_running_stats=False)).eval()
IN_AUTOCAST = OfFunction(torch.autocast("cpu", torch.bfloat16)(lambda m, x: m.l(x)), l=linear())
TOKENS = torch.tensor([[0, 1], [2, 3], [3, 3], [4, 0]])
BAG = nn.Sequential(nn.EmbeddingBag(5, 3, max_norm=0.5), linear())
SHORTENED = nn.Sequential(nn.Embedding(5, 3, max_norm=0.5), nn.Flatten(), nn.Linear(6, 2))
GENERATOR = torch.Generator().manual_seed(0)
DRAWING = [  # of torch, of a generator, of NumPy and of Python
    lambda n: torch.rand(n, 1),
    lambda n: torch.rand(n, 1, generator=GENERATOR),
    lambda n: torch.from_numpy(np.random.rand(n, 1)),  # noqa: NPY002
    lambda n: torch.full((n, 1), random.random()),
]
ERRORS = [IndexError, AssertionError, TypeError, ValueError, RuntimeError]


def then(function):
    return OfFunction(lambda m, x: function(m.layer(x)), layer=linear())


def drawing(draw):
    """Return a module as with stochastic depth, whose outputs are the same in most calls."""
    return then(lambda y: y * (draw(len(y)) > 1e-6))


def failing(error, at):
    def forward(m, x):
        if (x == at).all(dim=1).any():
            raise error("of two\nlines")
        return m.layer(x)

    return OfFunction(forward, layer=linear())


@pytest.mark.parametrize(
    ("model", "x", "options", "error", "words"),
    [
        (nn.Sequential(linear(), nn.BatchNorm1d(2)), X, {}, TrainingModeError, "1 .*eval()"),
        (NO_STATISTICS, X, {}, TrainingModeError, "track_running_stats"),
        (nn.Sequential(linear(), nn.Dropout()), X, {}, TrainingModeError, "1 .*eval()"),
        (then(nn.functional.dropout), X, {}, TrainingModeError, "dropout"),
        (LAZY, X, {}, ModuleError, "1 has no shape yet: call the module once"),
        (nn.Sequential(nn.LazyLinear(4), nn.Tanh()), X, {}, ModuleError, "0 has no shape yet"),
        (SHORTENED, TOKENS, {}, ModuleError, "0 shortens its weights.*max_norm to None"),
        (BAG, TOKENS, {}, ModuleError, "0 shortens its weights.*max_norm to None"),
        (linear().bfloat16(), X.bfloat16(), {}, ModuleError, "bfloat16"),
        (IN_AUTOCAST, X, {}, ModuleError, "bfloat16.*leave autocast"),
        *((drawing(f), X, {}, TrainingModeError, "draws random numbers") for f in DRAWING),
        (nn.Sequential(linear(), CENTRED), X, {}, MixedSamplesError, "^1 mixes samples"),
        (then(lambda y: y - y[-1:]), X, {}, MixedSamplesError, "mixes"),
        (then(lambda y: y / y.abs().max()), X, {}, MixedSamplesError, "mixes"),
        (then(lambda y: y / len(y)), X, {}, MixedSamplesError, "mixes"),
        (then(lambda y: y * (1 + (len(y) > 3))), X, {}, MixedSamplesError, "mixes"),
        (None, X, {}, ModuleError, "NoneType"),
        (then(torch.detach), X, {}, OutputsError, "detach"),
        (linear(), X.numpy(), {}, InputsError, "torch.from_numpy"),
        (linear(), X.to_sparse(), {}, InputsError, "to_dense"),
        *((failing(e, X[0]), X, {}, InputsError, f"{e.__name__}: of two lines") for e in ERRORS),
        *((failing(e, X[-1]), X, {}, InputsError, f"{e.__name__}: of two lines") for e in ERRORS),
        (linear(), X, {"x2": X.double()}, InputsError, r"float64.*x.to\(torch.float32\)"),
        (linear(), X, {"tile": -3}, InputsError, "tile=-3"),
        (linear(), X, {"parameters": []}, ParametersError, "at least one"),
        (linear(), X, {"outputs": True}, OutputsError, "index below 2"),
        (linear(), X.long(), {}, InputsError, r"no embedding.*x.to\(torch.float32\)"),
        (linear(), X.double(), {}, InputsError, r"float64.*x.to\(torch.float32\)"),
        (linear(), X[:, :2], {}, InputsError, "shape"),
        (linear(), X[:0], {}, InputsError, "at least one"),
        (linear(), (X, X[:2]), {}, InputsError, "4, 2 samples"),
        (linear(), X.to("meta"), {}, InputsError, "device="),
        (linear(), X, {"device": "cuda"}, InputsError, "model.to"),
        (FROZEN, X, {}, ParametersError, "requires_grad_"),
        (linear(), X, {"parameters": "wieght"}, ParametersError, "did you mean 'weight'"),
        (linear(), X, {"parameters": lambda name, p: False}, ParametersError, "no trainable"),
        (linear(), X, {"parameters": ["!*"]}, ParametersError, "leave no"),
        (linear(), X, {"outputs": "all"}, OutputsError, "mean_of_kernels"),
        (then(lambda y: (y, y)), X, {}, OutputsError, "wrap"),
        (then(lambda y: y.view(-1, 2, 1)), X, {}, OutputsError, "flatten"),
        (then(torch.mean), X, {}, OutputsError, "shape"),
        (network(3), X.double(), {"parameters": "W"}, ParametersError, "leave out"),
        (network(3), X.double(), {"outputs": 1}, OutputsError, "index below 1"),
    ],
)
def test_mistakes_are_told_in_a_line(model, x, options, error, words):
    with pytest.raises(error) as caught:
        ntk(model, x, **options)
    assert re.search(words, str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("first", [nn.Identity(), nn.Linear(3, 3)])
@pytest.mark.parametrize("kernel", [ntk, ntk_operator])
def test_checkpoints_that_lose_gradients_are_refused(kernel, first):
    again = OfFunction(lambda m, x: checkpoint(m.layer, x, use_reentrant=True), layer=linear())
    with pytest.raises(ModuleError, match="use_reentrant=False"):
        kernel(nn.Sequential(first, again), X)


def counting(m, x):
    m.calls += 1
    m.again = m.again + 1
    return x.mul_(2.0)


@pytest.mark.parametrize(
    ("last", "call"),
    [
        (nn.Identity(), nullcontext()),
        (CENTRED, pytest.raises(MixedSamplesError)),
        (OfFunction(lambda m, x: (x, torch.rand(3))[0]), pytest.raises(TrainingModeError)),
    ],
    ids=["right", "mixing", "drawing"],
)
def test_module_inputs_and_random_numbers_are_left_as_they_were(last, call):
    model = nn.Sequential(OfFunction(counting), linear(), nn.BatchNorm1d(2), last).eval()
    for name in ("calls", "again"):
        model[0].register_buffer(name, torch.zeros(()))
    model[0].train()
    model[1].bias.requires_grad_(False)
    model[1].weight.grad = torch.ones(2, 3)
    x = X.clone()

    def state():
        tensors = x, torch.get_rng_state(), model[1].weight.grad, *model.state_dict().values()
        modes = [(module.training, len(module._forward_hooks)) for module in model.modules()]
        parameters = [(p.requires_grad, p.grad is None) for p in model.parameters()]
        return [t.tolist() for t in tensors], modes, parameters, torch.is_grad_enabled()

    before = state()
    with call:
        ntk(model, x)
    assert state() == before


def test_a_caller_without_gradients_gets_the_same_kernel():
    model, x = vision_transformer(), torch.randn(4, 3, 8, 8)
    k = ntk(model, x)
    with torch.no_grad():
        assert torch.equal(ntk(model, x), k)
    with torch.inference_mode():
        assert torch.equal(ntk(model, x.clone()), k)


@pytest.fixture
def a_terabyte():
    """Allow no more, also on machines that promise more memory than they have."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (10**12, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


MILLION = torch.zeros(1, 3).expand(10**6, 3)
WIDE = OfFunction(lambda m, x: (x @ m.w).expand(-1, 10**6), w=torch.ones(3, 1))


@pytest.mark.usefixtures("a_terabyte")
@pytest.mark.parametrize(
    "call",
    [
        lambda: ntk(nn.Linear(3, 1), MILLION),
        lambda: ntk(nn.Linear(3, 1), MILLION, MILLION),
        lambda: ntk(WIDE, MILLION[:64], outputs="full"),
        lambda: ntk(network(3), MILLION.double()),
        lambda: infinite.ntk(MILLION + 1, depth=1, activation="relu"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_it_needs(call):
    with pytest.raises(UserError, match=r"\A[^\n]*\d[^\n]*(B|bytes)\b[^\n]*\Z"):
        call()
