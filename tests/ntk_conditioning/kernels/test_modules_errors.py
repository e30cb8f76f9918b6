"""Modules without a kernel are refused in a line with the remedy, and nothing is left changed."""

import random
import re
from contextlib import nullcontext
from functools import partial
from itertools import count, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ntk_conditioning import condition, memory, ntk, ntk_operator
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
from ntk_conditioning.spectra.condition_numbers import KernelError
from tests.ntk_conditioning import gradients
from tests.ntk_conditioning.kernels.networks_to_differentiate import (
    OfFunction,
    assert_right,
    vision_transformer,
)

pytestmark = pytest.mark.usefixtures("double")

MLP = gradients.network(3)
X = torch.linspace(-1, 1, 12).view(4, 3)
FAR = 5 * (torch.arange(200) == 155).long().view(100, 2)  # a row number beyond the first samples
EMBEDDED = nn.Sequential(nn.Embedding(5, 3), nn.Flatten())
linear = partial(nn.Linear, 3, 2)
CENTRED = OfFunction(lambda m, x: x - x.mean(0))
REENTRANT = OfFunction(lambda m, x: checkpoint(m.l, x, use_reentrant=True), l=linear())
NAMED = OfFunction(lambda m, x: {"logits": m.l(x)}, l=linear())
CENTRED_OUTPUTS = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5, elementwise_affine=False)).double()
NO_STATISTICS = nn.Sequential(linear(), nn.BatchNorm1d(2, track_running_stats=False)).eval()
IN_AUTOCAST = OfFunction(torch.autocast("cpu", torch.bfloat16)(lambda m, x: m.l(x)), l=linear())
GENERATOR, COUNTED = torch.Generator().manual_seed(0), count(1)
DRAWING = [  # as stochastic depth does; the outputs are the same in most calls
    lambda y: y * (torch.rand(len(y), 1, generator=GENERATOR) > 1e-6),
    lambda y: y * (torch.from_numpy(np.random.rand(len(y), 1)) > 1e-6),  # noqa: NPY002
    lambda y: y * (random.random() > 1e-6),
]
MIXING = [  # what a sample gets depends on another, on its place, or on their number
    lambda y: y - y[-1:] * torch.tensor([0.0, 1.0]),
    lambda y: y / len(y),
    lambda y: y * (1 + (len(y) > 3)),
]
SHORTENS = "0 shortens its weights.*max_norm to None"
FAILURES = [*product([IndexError, AssertionError, TypeError, ValueError, RuntimeError], (0, -1))]


def then(function):
    return OfFunction(lambda m, x: function(m.layer(x)), layer=linear())


def failing(error, at):
    def forward(m, x):
        if (x == at).all(dim=1).any():
            raise error("of two\nlines")
        return m.layer(x)

    return OfFunction(forward, layer=linear())


def multiplied(model, x):
    return ntk_operator(model, x) @ torch.ones(len(x))


def conditioned(model, x):
    return condition(ntk_operator(model, x))


BOTH = [
    (nn.Sequential(linear(), nn.BatchNorm1d(2)), X, {}, TrainingModeError, "1 .*eval()"),
    (NO_STATISTICS, X, {}, TrainingModeError, "track_running_stats"),
    (nn.Sequential(linear(), nn.Dropout()), X, {}, TrainingModeError, "1 .*eval()"),
    (then(nn.functional.dropout), X, {}, TrainingModeError, "dropout"),
    (nn.LazyBatchNorm1d().eval(), X, {}, ModuleError, "has no shape yet: call the module once"),
    (nn.Sequential(nn.Embedding(5, 3, max_norm=1)), X, {}, ModuleError, SHORTENS),
    (nn.Sequential(nn.EmbeddingBag(5, 3, max_norm=1)), X, {}, ModuleError, SHORTENS),
    (linear().bfloat16(), X.bfloat16(), {}, ModuleError, "bfloat16"),
    (IN_AUTOCAST, X, {}, ModuleError, "bfloat16.*leave autocast"),
    *((then(f), X, {}, TrainingModeError, "draws random numbers") for f in DRAWING),
    (then(lambda y: y * next(COUNTED)), X, {}, TrainingModeError, "other outputs each time"),
    (nn.Sequential(linear(), CENTRED), X, {}, MixedSamplesError, "^1 mixes samples"),
    *((then(f), X, {}, MixedSamplesError, "mixes") for f in MIXING),
    (nn.Sequential(nn.Identity(), REENTRANT), X, {}, ModuleError, "use_reentrant=False"),
    (nn.Sequential(nn.Linear(3, 3), REENTRANT), X, {}, ModuleError, "use_reentrant=False"),
    (nn.Sequential(linear(), nn.Softmax(1)), X, {}, OutputsError, "sum .*mean_of_kernels"),
    (CENTRED_OUTPUTS, X.double(), {}, OutputsError, "sum .*mean_of_kernels"),
    (None, X, {}, ModuleError, "NoneType"),
    (then(torch.detach), X, {}, OutputsError, "detach"),
    (linear(), X.numpy(), {}, InputsError, "torch.from_numpy"),
    (linear(), X.to_sparse(), {}, InputsError, "to_dense"),
    *((failing(e, X[i]), X, {}, InputsError, f"{e.__name__}: of two l") for e, i in FAILURES),
    (linear(), X, {"parameters": []}, ParametersError, "at least one"),
    (linear(), X, {"outputs": True}, OutputsError, "index below 2"),
    (linear(), X.long(), {}, InputsError, r"no embedding.*x.to\(torch.float32\)"),
    (linear(), X.double(), {}, InputsError, r"float64.*x.to\(torch.float32\)"),
    (linear(), X[:, :2], {}, InputsError, "shape"),
    (linear(), X[:0], {}, InputsError, "at least one"),
    (linear(), (X, X[:2]), {}, InputsError, "4, 2 samples"),
    (linear().requires_grad_(False), X, {}, ParametersError, "requires_grad_"),
    (linear(), X, {"parameters": "wieght"}, ParametersError, "did you mean 'weight'"),
    (linear(), X, {"parameters": lambda name, p: False}, ParametersError, "no trainable"),
    (linear(), X, {"parameters": ["!*"]}, ParametersError, "leave no"),
    (linear(), X, {"outputs": "all"}, OutputsError, "mean_of_kernels"),
    (linear(), X, {"outputs": -1}, OutputsError, "index below 2, from 0 on"),
    (then(lambda y: (y, y)), X, {}, OutputsError, "wrap"),
    (then(lambda y: y.view(-1, 2, 1)), X, {}, OutputsError, "flatten"),
    (then(torch.mean), X, {}, OutputsError, "shape"),
    (MLP, X.double(), {"outputs": 1}, OutputsError, "index below 1"),
]


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize(
    ("kernel", "model", "x", "options", "error", "words"),
    [
        *((kernel, *mistake) for kernel in (ntk, ntk_operator) for mistake in BOTH),
        (ntk, linear(), X, {"x2": X.double()}, InputsError, r"float64.*x.to\(torch.float32\)"),
        (ntk, linear(), X, {"tile": -3}, InputsError, "tile=-3"),
        (ntk, linear(), X, {"memory": 0}, InputsError, "memory=0"),
        (ntk, linear(), X.to("meta"), {}, InputsError, "device="),
        (ntk, linear(), X, {"device": "cuda"}, InputsError, "model.to"),
        (ntk, MLP, (X.double(), X.double()), {}, InputsError, "an MLP takes one tensor"),
        (ntk, MLP, X.double(), {"parameters": "W"}, ParametersError, "leave out"),
        (ntk_operator, linear(), X, {"batch": 0}, InputsError, "batch=0 is no whole number above"),
        (ntk_operator, NAMED, X, {"output": "loss"}, OutputsError, "a dict without 'loss'"),
        (multiplied, EMBEDDED, FAR, {}, InputsError, r"\(100, 2\): IndexError: index out of range"),
        (conditioned, linear(bias=False), 0 * X, {}, KernelError, "the kernel is zero"),
        (conditioned, linear(), np.nan * X, {}, KernelError, "not finite"),
    ],
)
def test_mistakes_are_told_in_a_line(kernel, model, x, options, error, words):
    with pytest.raises(error) as caught:
        kernel(model, x, **options)
    assert re.search(words, str(caught.value))
    assert "\n" not in str(caught.value)


def counting(m, x):
    if not hasattr(m, "new"):
        m.register_buffer("new", torch.ones(()))
    m.calls += 1
    m.again = m.again + 1
    return x.mul_(2.0)


DRAWS = OfFunction(lambda m, x: (x, torch.rand(3))[0])
ENDS = [(nn.Identity(), None), (CENTRED, MixedSamplesError), (DRAWS, TrainingModeError)]


@pytest.mark.parametrize("kernel", [ntk, multiplied])
@pytest.mark.parametrize(("last", "error"), ENDS)
def test_module_inputs_and_random_numbers_are_left_as_they_were(kernel, last, error):
    model = nn.Sequential(OfFunction(counting), linear(), nn.BatchNorm1d(2), last).eval()
    for name in ("calls", "again"):
        model[0].register_buffer(name, torch.zeros(()))
    model[0].train()
    model[1].bias.requires_grad_(False)
    model[1].weight.grad = torch.ones(2, 3)
    x = X.double()

    def state():
        tensors = x, torch.get_rng_state(), model[1].weight.grad, *model.state_dict().values()
        modes = [(module.training, len(module._forward_hooks)) for module in model.modules()]
        parameters = [(p.requires_grad, p.grad is None) for p in model.parameters()]
        return [t.tolist() for t in tensors], modes, parameters, torch.is_grad_enabled()

    before = state()
    with pytest.raises(error) if error else nullcontext():
        kernel(model, x)
    assert state() == before


MILLION = torch.zeros(1, 3).double().expand(10**6, 3)
WIDE = OfFunction(lambda m, x: (x @ m.w).expand(-1, 10**6), w=torch.ones(3, 1).double())
TOO_LARGE = [
    lambda: ntk(nn.Linear(3, 1), MILLION),
    lambda: ntk(nn.Linear(3, 1), MILLION, MILLION),
    lambda: ntk(WIDE, MILLION[:64], outputs="full"),
    lambda: ntk(MLP, MILLION),
    lambda: infinite.ntk(MILLION + 1, depth=1, activation="relu"),
]


@pytest.mark.parametrize("call", TOO_LARGE)
def test_what_does_not_fit_is_refused_with_what_it_needs(call, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**12)
    with pytest.raises(UserError, match=r"\A[^\n]*\d[^\n]*(B|bytes)\b[^\n]*\Z"):
        call()


def moved(layer, h, i):
    return layer(h[i])[i.argsort()]


def masked(layer, h):
    mask, made = h[:, 0] > 0.3, layer(h)
    return torch.zeros_like(made).masked_scatter(mask[:, None], layer(h[mask]))


MOVING = {
    "sorted": lambda layer, h: moved(layer, h, h[:, 0].argsort()),
    "from a list": lambda layer, h: moved(layer, h, torch.tensor(np.argsort(h[:, 0].tolist()))),
    "masked": masked,
    "padded": lambda layer, h: layer(functional.pad(h, (0, 0, 0, -len(h) % 4)))[: len(h)],
    "halves exchanged": lambda layer, h: layer(h.roll(len(h) // 2, 0)).roll(-(len(h) // 2), 0),
    "as it is": lambda layer, h: layer(h),
}
#: Whose outputs are other ones among other samples.
MIXED = {
    "not put back": lambda layer, h: layer(h[h[:, 0].argsort()]),
    "by the first": lambda layer, h: layer(h if h[0, 0] > 0 else h.tanh()),
    "by the largest": lambda layer, h: layer(h) + functional.relu(h.max(0).values - 2).mean(),
}


def network(*kinds):
    def forward(m, x):
        for k, kind in enumerate(kinds):
            x = (MOVING | MIXED)[kind](m.get_submodule(f"l{k}"), x).tanh()
        return x[:, :2]

    return OfFunction(forward, **{f"l{k}": nn.Linear(3, 3) for k in range(len(kinds))})


@given(
    kinds=st.lists(st.sampled_from(sorted(MOVING | MIXED)), min_size=1, max_size=3),
    n=st.integers(1, 12),
    seed=st.integers(0, 99),
    outputs=st.sampled_from(["sum", "full"]),
    limit=st.sampled_from([None, 6_000, 1]),
)
@settings(max_examples=200)
def test_samples_may_be_moved_and_no_kernel_is_wrong(kinds, n, seed, outputs, limit):
    torch.manual_seed(seed)
    model, x = network(*kinds), torch.randn(n, 3)
    try:
        k = ntk(model, x, outputs=outputs, memory=limit)
    except MixedSamplesError:
        assert {*kinds} & {*MIXED}
        assert limit != 1  # a batch of one is taken alone
        return
    assert_right(k, model, x, outputs=outputs, rel=1e-10)


def test_samples_of_every_batch_are_compared_with_what_each_gives_alone():
    x = torch.randn(150, 3).clamp(max=0.7)
    x[130] = 2.5  # in the third batch
    with pytest.raises(MixedSamplesError, match="place in the batch"):
        ntk(network("by the largest"), x)


def test_a_kernel_has_the_lowest_precision_on_the_way_and_callers_settings_do_not_matter():
    body, x = vision_transformer().float(), torch.randn(6, 3, 8, 8).float()
    model = OfFunction(lambda m, x: m.body(x).double(), body=body)
    k = ntk(model, x)
    assert k.dtype == torch.float32
    assert condition(k).reduced_precision
    for setting in (torch.no_grad(), torch.inference_mode(), torch.autocast("cpu", torch.bfloat16)):
        with setting:
            assert torch.equal(ntk(model, x.clone()), k)
    # Sums of some thousand products, each with a rounding of 6e-8.
    assert_right(k, body.double(), x.double(), rel=1e-5)
    rotated = then(lambda y: torch.fft.fft(y).real).float()
    assert ntk(rotated, X).dtype == torch.float32
