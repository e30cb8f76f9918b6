"""Small torch modules with every layer and use of weights, and kernels from their Jacobians."""

import itertools
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

from ntk_conditioning.networks.architectures import MODELS
from tests.ntk_conditioning.gradients import deep_network, jacobian

IMAGE = (4, 7, 6)


def kernel(a, b, outputs):
    """Return the kernel of Jacobians (n, c, p) and (n2, c, p)."""
    if outputs == "full":
        return a.flatten(0, 1) @ b.flatten(0, 1).T
    if outputs == "mean_of_kernels":
        return a.flatten(1) @ b.flatten(1).T / a.shape[1]
    a, b = (t.sum(1) if outputs == "sum" else t[:, outputs] for t in (a, b))
    return a @ b.T


def assert_close(k, expected, *, size=None, rel=1e-12):
    """Two float64 routes to one sum of some thousand products, by default."""
    assert k.shape == expected.shape
    assert (k - expected).abs().max() <= rel * (expected if size is None else size).abs().max()


def assert_right(k, model, *inputs, outputs="sum", rel=1e-12):
    j = jacobian(model, inputs)
    assert_close(k, kernel(j, j, outputs), rel=rel)


def assert_products(k, kernel):
    v = torch.randn(len(kernel), 2)
    for given in (v, v[:, 0]):
        torch.testing.assert_close(k @ given, kernel @ given, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(k.diagonal(), kernel.diagonal(), rtol=1e-12, atol=0)
    assert k.trace() == pytest.approx(kernel.trace().item(), rel=1e-12)


def ended(*layers, shape=IMAGE, outputs=2):
    model = nn.Sequential(*layers, nn.ReLU(inplace=True), nn.Flatten(), nn.LazyLinear(outputs))
    x = torch.randn(5, *shape)
    model.eval()(x.clone())
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.4)
        for name, statistics in model.named_buffers():
            if "running" in name:
                statistics.uniform_(0.5, 2)
    return model, (x,)


class OfFunction(nn.Module):
    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part if isinstance(part, nn.Module) else nn.Parameter(part))
        self._forward = forward

    def forward(self, *inputs):
        return self._forward(self, *inputs)


def layers():
    """Yield layers behind another, so that there is a gradient with respect to their input."""
    options = {"padding": "same"}, {"padding": 2, "padding_mode": "circular"}, {"groups": 4}
    of_images = [nn.Conv2d(4, 8, (5, 3), **given) for given in options]
    of_images += [nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.PReLU(4), nn.PReLU()]
    of_images += [nn.InstanceNorm2d(4, affine=True, track_running_stats=t) for t in (True, False)]
    of_images += [nn.LayerNorm((7, 6)), nn.LayerNorm(6, bias=False), nn.RMSNorm((4, 7, 6))]
    for layer in of_images:
        yield str(layer), *ended(nn.Conv2d(4, 4, 1), layer)
    yield "Softmax", nn.Sequential(nn.Linear(5, 3), nn.Softmax(1)), (torch.randn(5, 5),)
    yield "BatchNorm1d", *ended(nn.Linear(5, 4), nn.BatchNorm1d(4), shape=(5,))
    options = {"stride": 2, "padding": 1, "groups": 2}, {"dilation": 2, "bias": False}
    for dims, kind, given in itertools.product((1, 2, 3), ("", "Transpose"), options):
        before = getattr(nn, f"Conv{dims}d")(4, 4, 1)
        layer = getattr(nn, f"Conv{kind}{dims}d")(4, 6, 3, **given)
        yield str(layer), *ended(before, layer, shape=(4, 5, 6, 5)[: dims + 1])


def own_weights():
    x, w, b = torch.randn(5, 6), torch.randn(6, 7), torch.randn(7)
    v, s = torch.randn(7, 2), torch.tensor(1.3)

    def masked(m, x):
        copy = m.w.clone()
        copy *= (torch.arange(42) % 3 > 0).view(6, 7)
        copy.view(-1)[::2].mul_(3)
        return (x @ copy).relu() @ m.v

    forwards = {
        "NTK parameterisation": lambda m, x: torch.tanh(x @ (m.w / 6**0.5)) @ m.v * 0.3,
        "scaled twice": lambda m, x: torch.tanh(x @ (2 * m.w / 3)) @ m.v,
        "scalars, powers": lambda m, x: torch.relu(m.s * (x @ m.w) + m.b**2) @ m.v,
        "in place": lambda m, x: torch.tanh((x @ m.w).add_(m.b).mul_(m.s)) @ m.v,
        "a copy in place": masked,
        "zeros in place": lambda m, x: x.new_zeros(len(x), 7).add_(x @ m.w).tanh() @ m.v,
        "floored": lambda m, x: (x @ torch.div(m.w, 0.1, rounding_mode="floor")) @ m.v,
        "weights on the left": lambda m, x: (m.w.T @ x.unsqueeze(2)).squeeze(-1) @ m.v,
        "addmm, vector": lambda m, x: torch.addmm(m.b, x, m.w).sin() @ m.v[:, 0],
        "einsum": lambda m, x: torch.einsum("nsi,io->no", x.unsqueeze(1), m.w).sin() @ m.v,
        "hypotenuse": lambda m, x: torch.hypot(x[:, :1].relu(), m.s),
        "used twice": lambda m, x: m.layer(m.layer(x).tanh())[:, :2],
        "squeezed": lambda m, x: (x @ m.w @ m.v[:, :1]).squeeze(),
    }
    for name, forward in forwards.items():
        yield name, OfFunction(forward, w=w, v=v, b=b, s=s, layer=nn.Linear(6, 6)), (x,)
    model, inputs = ended(weight_norm(nn.Conv2d(4, 4, 3)), weight_norm(nn.Linear(4, 3)))
    yield "weight norm", model, inputs


def transformers():
    tokens = torch.randint(0, 9, (5, 4))
    layers = nn.Embedding(9, 3, padding_idx=2), nn.Flatten(), nn.Linear(12, 2)
    yield "embedding", nn.Sequential(*layers), (tokens,)
    w, padded = torch.randn(9, 3), lambda m, t: functional.embedding(t, m.w, padding_idx=-7).mean(1)
    yield "embedding, padding counted from the end", OfFunction(padded, w=w), (tokens,)
    w, again = nn.Embedding(9, 3), lambda m, t: functional.linear(m.e(t).mean(1), m.e.weight)
    yield "tied", OfFunction(again, e=w), (tokens,)
    yield "vision", vision_transformer(), (torch.randn(4, 3, 8, 8),)
    layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True, norm_first=True).eval()
    yield "encoder", nn.Sequential(layer, nn.Flatten(), nn.Linear(18, 2)), (torch.randn(4, 3, 6),)
    attention = partial(nn.MultiheadAttention, 6, 3, batch_first=True)
    other = attention(kdim=4, vdim=4, add_bias_kv=True)
    parts = {"other": other, "same": attention(bias=False)}
    cross = OfFunction(lambda m, q, k: m.same(m.other(q, k, k)[0], q, q)[0].mean(1), **parts)
    yield "two inputs", cross, (torch.randn(4, 3, 6), torch.randn(4, 5, 4))


def vision_transformer():
    """Return patches, a class token, positions and a block of attention with a scaled branch."""

    def forward(m, x):
        z = m.patches(x).flatten(2).transpose(1, 2)
        z = torch.cat([m.token.expand(len(x), -1, -1), z], dim=1) + m.positions
        y = m.norm(z)
        z = z + m.scale * m.attention(y, y, y, need_weights=False)[0]
        return m.head((z + m.mlp(z))[:, 0])

    parts = {"token": torch.randn(1, 1, 8), "positions": torch.randn(1, 5, 8)}
    parts |= {"patches": nn.Conv2d(3, 8, 4, 4), "norm": nn.LayerNorm(8), "scale": torch.randn(8)}
    parts["attention"] = nn.MultiheadAttention(8, 2, batch_first=True)
    parts["mlp"] = nn.Sequential(nn.RMSNorm(8), nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 8))
    return OfFunction(forward, **parts, head=nn.Linear(8, 3))


class Sign(torch.autograd.Function):
    forward = staticmethod(lambda context, w: w.sign())
    backward = staticmethod(lambda context, delta: delta)


def slow():
    """Yield networks that torch.func does not differentiate, or wrongly, and what the log says."""
    x, tokens = torch.randn(5, 3), torch.tensor([[0, 1], [2, 3], [3, 3], [4, 0]])
    layers = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    seeded, line = torch.Generator().manual_seed, "one by one"
    forwards = [
        ("autograd.Function", lambda m, x: functional.linear(m.layers(x), Sign.apply(m.w[0]))),
        ("gru", lambda m, x: m.gru(x[:, None].expand(-1, 5, 3))[0][:, -1]),
        (line, lambda m, x: checkpoint(m.layers, x, use_reentrant=False)),
        (line, lambda m, x: m.layers(x) * torch.rand(3, generator=seeded(0))),
        ("", lambda m, x: torch.cdist(m.layers(x), m.w[0])),
        ("", lambda m, x: torch.vmap(lambda z: m.layers(z).tanh())(x)),
        ("", lambda m, x: functional.bilinear(x, x, m.listed[0])),  # that torch.func keeps
        ("differ", lambda m, x: x @ m.w[0] + x.square() @ m.listed[0][0]),
    ]
    for reason, forward in forwards:
        parts = {"layers": layers, "gru": nn.GRU(3, 4, batch_first=True), "w": torch.randn(2, 3, 3)}
        model = OfFunction(forward, **parts)
        model.listed = [model.w]
        yield reason, model, (x,)
    for made in (torch.jit.script(layers), torch.jit.trace(layers, x[:2])):
        yield line, made, (x,)
    for mode, sparse in itertools.product(("sum", "mean"), (False, True)):
        bag = nn.EmbeddingBag(5, 3, mode=mode, sparse=sparse)
        yield line, nn.Sequential(bag, layers), (tokens,)
    embedding = nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Flatten(), nn.Linear(6, 2))
    yield line, embedding, (tokens,)


def experiments():
    for name in sorted(MODELS.keys() - {"mlp"}):
        depth = 8 if MODELS[name].family == "resnet" else 2
        model = deep_network(name, depth, 4, activation="tanh", outputs=2).eval()
        yield name, model, (torch.randn(3, 3, 8, 8),)


#: Networks whose layers differ, and what they do with weights.
LAYERS, USES = [layers, experiments], [own_weights, transformers]
