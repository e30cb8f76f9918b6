"""The kernel of any module is the product of its Jacobians, whatever its layers and the memory."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ntk_conditioning import ntk
from ntk_conditioning.kernels import empirical
from tests.ntk_conditioning.gradients import inputs, network
from tests.ntk_conditioning.kernels.networks_to_differentiate import (
    LAYERS,
    USES,
    OfFunction,
    assert_right,
    jacobian,
    kernel,
    vision_transformer,
)

# Two float64 routes to one sum of some thousand products.
REL = 1e-12
OUTPUTS = ["sum", "mean_of_kernels", "full", 1]


pytestmark = pytest.mark.usefixtures("double")


def assert_is_product_of_jacobians(
    model, x, x2=None, *, outputs=OUTPUTS, memories=(None, 200_000), names=None, **options
):
    x2 = x2 or tuple(t[:3].flip(0) for t in x)
    j, j2 = jacobian(model, x, names), jacobian(model, x2, names)
    for output in outputs:
        if output == 1 and j.shape[1] == 1:
            continue
        expected, between = kernel(j, j, output), kernel(j, j2, output)
        for memory in memories:
            k = ntk(model, x, outputs=output, memory=memory, **options)
            assert torch.equal(k, k.T)
            assert (k - expected).abs().max() <= REL * expected.abs().max()
            k = ntk(model, x, x2, outputs=output, memory=memory, **options)
            assert (k - between).abs().max() <= REL * expected.abs().max()


@pytest.mark.parametrize("networks", LAYERS + USES)
def test_layers_and_uses_of_weights(networks, caplog):
    for name, model, x in networks():
        outputs = ["full"] if networks in LAYERS else OUTPUTS
        assert_is_product_of_jacobians(model, x, outputs=outputs)
        assert not caplog.records, name  # nothing is slow


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
    layers, before = [], 3
    for width in widths:
        convolution = nn.Conv1d(before, width, 2, padding=1, bias=bias)
        linear = nn.Linear(before, width, bias=bias)
        layers += [convolution if kind == "convolution" else linear, nn.Tanh()]
        before = width
    shape = {"linear": (3,), "sequence": (2, 3), "convolution": (3, 3)}[kind]
    model = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(2))
    samples = (torch.randn(n, *shape),), (torch.randn(n2, *shape),)
    model(*samples[0])
    options = {"outputs": [outputs], "memories": [memory], "tile": tile}
    assert_is_product_of_jacobians(model, *samples, **options)


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ("head.*", ["head.weight", "head.bias"]),
        (["token", "mlp.*", "!*.bias"], ["token", "mlp.0.weight", "mlp.1.weight", "mlp.3.weight"]),
        (lambda name, p: p.ndim == 3, ["token", "positions"]),
        ("attention.in_proj_weight", ["attention.in_proj_weight"]),
    ],
)
def test_parameters_are_selected_by_names_patterns_and_tests(selection, names):
    model, x = vision_transformer(), (torch.randn(3, 3, 8, 8),)
    assert_is_product_of_jacobians(
        model, x, outputs=["sum"], memories=[None], parameters=selection, names=names
    )


class Sign(torch.autograd.Function):
    """A function that `torch.func` does not know."""

    forward = staticmethod(lambda context, w: w.sign())
    backward = staticmethod(lambda context, delta: delta)


def by_branch(m, x):
    return m.a(x) if float(x[0, 0]) > 0 else m.b(torch.tanh(x))


#: By what the log says.
SLOW = {
    "autograd.Function": OfFunction(
        lambda m, x: functional.linear(m.a(x), Sign.apply(m.w)),
        a=nn.Linear(3, 4),
        w=torch.randn(2, 4),
    ),
    "control": OfFunction(by_branch, a=nn.Linear(3, 2), b=nn.Linear(3, 2)),
    "gru": OfFunction(
        lambda m, x: m.gru(x[:, None].expand(-1, 5, 3))[0][:, -1],
        gru=nn.GRU(3, 4, batch_first=True),
    ),
}


@pytest.mark.parametrize("reason", SLOW)
def test_what_vmap_cannot_is_differentiated_sample_by_sample_and_the_log_says_so(reason, caplog):
    model, x = SLOW[reason].double(), torch.rand(20, 3) + 0.1
    x[-1] *= -1
    # batches of one sample each: the outputs of others would depend on the first's branch
    assert_right(ntk(model, x, memory=1), model, x)
    (line,) = caplog.messages
    assert "one by one" in line
    assert reason in line


def layers(inputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 4), nn.Tanh(), nn.Linear(4, 2))


def embedded(embedding=nn.Embedding, **options):
    """Return a network of tokens, with the same weights whatever the options are."""
    torch.manual_seed(0)
    first = embedding(5, 3, **options)
    return nn.Sequential(first, nn.Flatten(), layers(6 if embedding is nn.Embedding else 3))


def checkpointed(m, x):
    return checkpoint(m.layers[1:], m.layers[0](x), use_reentrant=False)


X = torch.linspace(-1, 1, 15, dtype=torch.float64).view(5, 3).sin()
TOKENS = torch.tensor([[0, 1], [2, 3], [3, 3], [4, 0]])
SUMS, MEANS = (partial(embedded, nn.EmbeddingBag, mode=mode) for mode in ("sum", "mean"))
HYPOTENUSE = OfFunction(lambda m, x: torch.hypot(x, m.t), t=torch.tensor(3.0, dtype=torch.float64))


@pytest.mark.parametrize(
    ("model", "plain", "x"),
    [
        (SUMS, SUMS, TOKENS),
        (MEANS, MEANS, TOKENS),
        (partial(SUMS, sparse=True), SUMS, TOKENS),
        (partial(MEANS, sparse=True), MEANS, TOKENS),
        (partial(embedded, sparse=True), embedded, TOKENS),
        (lambda: HYPOTENUSE, lambda: HYPOTENUSE, torch.tensor([[4.0], [0.0]]).double()),
        (lambda: OfFunction(checkpointed, layers=layers()), layers, X),
        (lambda: torch.jit.script(layers()), layers, X),
        (lambda: torch.jit.trace(layers(), X[:2]), layers, X),
    ],
)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_modules_of_other_kinds_have_the_kernel_of_plain_ones(model, plain, x):
    assert_right(ntk(model(), x, outputs="full"), plain(), x, outputs="full")


def test_autocast_does_not_reach_the_kernel():
    with torch.autocast("cpu", torch.bfloat16):
        k = ntk(layers().float(), X.float(), outputs="full")
    assert_right(k, layers(), X, outputs="full", rel=1e-5)  # of float32


@pytest.mark.parametrize("places", [1, 2, 7])
def test_other_samples_may_have_another_number_of_positions(places):
    model = OfFunction(
        lambda m, x: m.o(m.b(m.a(x).relu()).tanh().mean(1)),
        a=nn.Linear(3, 30),
        b=nn.Linear(30, 30),
        o=nn.Linear(30, 1),
    )
    x, x2 = torch.randn(3, 4, 3), torch.randn(2, places, 3)
    assert_is_product_of_jacobians(model, (x,), (x2,), outputs=["sum"], memories=[None])


def test_what_torch_func_differentiates_wrongly_is_differentiated_alone():
    solved = OfFunction(lambda m, x: torch.linalg.solve(m.w, x.T).T, w=torch.eye(4) + 0.1)
    distances = OfFunction(lambda m, x: torch.cdist(x, m.centres), centres=torch.randn(3, 4))
    mapped = OfFunction(lambda m, x: torch.vmap(lambda z: m.o(z).tanh())(x), o=nn.Linear(4, 1))
    listed = OfFunction(lambda m, x: functional.bilinear(x, x, m.all[0]), w=torch.randn(2, 4, 4))
    listed.all = [listed.w]  # where torch.func does not replace it
    for model in (solved, distances, mapped, listed):
        assert_is_product_of_jacobians(model, (torch.randn(5, 4),), memories=[None])


def test_a_deep_network_that_stretches_rounding_mixes_no_samples():
    model = nn.Sequential(*(part for _ in range(150) for part in (nn.Linear(64, 64), nn.Tanh())))
    for layer in model[::2]:
        nn.init.normal_(layer.weight, std=1.7 / 8)
    x, few = torch.randn(80, 64), 3
    outputs = model(x)
    assert not torch.allclose(outputs[:few], model(x[:few]), rtol=0, atol=1e-11)
    assert ntk(model, x, parameters="298.*").isfinite().all()


def test_a_shared_weight_has_all_of_its_names():
    model = OfFunction(lambda m, x: m.b(m.a(x).tanh()), a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    model.b.weight = model.a.weight
    x = torch.randn(5, 4)
    by_all, by_one = (ntk(model, x, parameters=s) for s in ("b.*", ["a.weight", "b.bias"]))
    assert torch.equal(by_all, by_one)


def test_an_mlp_takes_its_fast_path():
    mlp, x, x2 = network(4, depth=2), inputs(7, 4), inputs(3, 4, seed=2)
    assert torch.equal(ntk(mlp, x), empirical.ntk(mlp, x))
    assert torch.equal(ntk(mlp, x, x2, tile=2), empirical.ntk(mlp, x, x2, tile=2))
