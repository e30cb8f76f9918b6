"""Modules and calls of many kinds: the kernel is right, or one line says why there is none."""

import copy
import resource
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ntk_conditioning import ntk
from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels import infinite
from tests.ntk_conditioning.gradients import network
from tests.ntk_conditioning.kernels.networks_to_differentiate import OfFunction, assert_right

X = torch.linspace(-1, 1, 15, dtype=torch.float64).view(5, 3).sin()
TOKENS = torch.tensor([[0, 1], [2, 3], [3, 3], [4, 0]])


@contextmanager
def refused():
    """Allow an error of one line instead, and no other."""
    refusal = ""
    try:
        yield
    except UserError as error:
        refusal = str(error)
    assert "\n" not in refusal


def layers(inputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def embedded(embedding=nn.Embedding, **options):
    """Return a network of tokens, with the same weights whatever the options are."""
    torch.manual_seed(0)
    first = embedding(5, 3, **options).double()
    return nn.Sequential(first, nn.Flatten(), layers(6 if embedding is nn.Embedding else 3))


def hypotenuse():
    return OfFunction(lambda m, x: torch.hypot(x, m.t), t=torch.tensor(3.0, dtype=torch.float64))


def checkpointed(*, reentrant):
    """Return the layers, of which the last two are called again in the backward pass."""

    def forward(m, x):
        return checkpoint(m.layers[1:], m.layers[0](x), use_reentrant=reentrant)

    return OfFunction(forward, layers=layers())


SUMS, MEANS = (partial(embedded, nn.EmbeddingBag, mode=mode) for mode in ("sum", "mean"))


@pytest.mark.parametrize(
    ("model", "plain", "x"),
    [
        (SUMS, SUMS, TOKENS),
        (MEANS, MEANS, TOKENS),
        (partial(SUMS, sparse=True), SUMS, TOKENS),
        (partial(MEANS, sparse=True), MEANS, TOKENS),
        (partial(embedded, sparse=True), embedded, TOKENS),
        (hypotenuse, hypotenuse, torch.tensor([[4.0], [0.0]]).double()),
        (partial(checkpointed, reentrant=False), layers, X),
    ],
)
def test_kernels_are_right(model, plain, x):
    assert_right(ntk(model(), x, outputs="full"), plain(), x, outputs="full")


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (lambda: torch.jit.script(layers()), lambda: X),
        (lambda: torch.jit.trace(layers(), X[:2]), lambda: X),
        (partial(checkpointed, reentrant=True), lambda: X),
        (layers, X.to_sparse),
        (layers, X.to_sparse_csr),
    ],
)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore:Sparse CSR")
def test_kernels_are_right_or_refused(model, x):
    with refused():
        assert_right(ntk(model(), x(), outputs="full"), layers(), X, outputs="full")


@pytest.mark.parametrize("inside", [False, True])
def test_autocast_does_not_reach_the_kernel_or_is_refused(inside):
    def forward(m, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=inside):
            return m.layers(x)

    model = OfFunction(forward, layers=layers().float()) if inside else layers().float()
    with refused():
        with torch.autocast("cpu", torch.bfloat16, enabled=not inside):
            k = ntk(model, X.float(), outputs="full")
        assert_right(k, layers(), X, outputs="full", rel=1e-5)  # of float32


ERRORS = [(each, False) for each in (IndexError, AssertionError, TypeError, ValueError)]
ERRORS += [(IndexError, True), (RuntimeError, True)]


@pytest.mark.parametrize(("error", "late"), ERRORS)
def test_an_error_of_the_module_is_one_line(error, late):
    """Also a late one, which the first samples do not have."""

    def forward(m, x):
        if not late or (x == X[-1]).all(dim=1).any():
            raise error("of two\nlines")
        return m.layers(x)

    with pytest.raises(UserError) as caught:
        ntk(OfFunction(forward, layers=layers()), X)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (nn.Sequential(nn.LazyLinear(4), nn.Tanh()), X.float()),
        (embedded(max_norm=0.5), TOKENS),
        (embedded(nn.EmbeddingBag, max_norm=0.5), TOKENS),
    ],
)
def test_parameters_are_left_as_they_were_and_a_refusal_is_one_line(model, x):
    before = copy.deepcopy(model)
    with refused():
        ntk(model, x)
    for now, then in zip(model.parameters(), before.parameters(), strict=True):
        assert nn.parameter.is_lazy(now) == nn.parameter.is_lazy(then)
        assert nn.parameter.is_lazy(now) or torch.equal(now, then)


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
        lambda: infinite.ntk(np.broadcast_to(np.ones(3), (10**6, 3)), depth=1, activation="relu"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_it_needs(call):
    with pytest.raises(UserError, match=r"\A[^\n]*\d[^\n]*(B|bytes)\b[^\n]*\Z"):
        call()
