"""Deep networks are as published, and the user's as they say; every mistake is one line."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations, user_models
from ntk_conditioning.networks.architectures import MODELS, sizes
from ntk_conditioning.networks.layers import Elementwise
from tests.ntk_conditioning.gradients import deep_network as network


def images(n, image=(8, 8, 3)):
    return torch.from_numpy(np.random.default_rng(0).standard_normal((n, image[2], *image[:2])))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mlp"])
def test_sizes_are_those_of_the_networks_and_all_weights_are_trained(name):
    """Counted here by hooks at every layer with weights; an odd image, for strides and patches.

    A seed gives one network, and torch's generator is left alone.
    """
    image, family, state = (9, 7, 2), MODELS[name].family, torch.random.get_rng_state()
    for depth in (2, 4, 14) if family == "resnet" else (1, 3):
        model, again = (network(name, depth, 4, image=image, outputs=5) for _ in range(2))
        assert all(map(torch.equal, model.parameters(), again.parameters()))
        counts = []  # weights, multiply-adds and units of a layer

        def count(layer, _, out, counts=counts):
            weights, units = layer.weight.numel(), out[0].numel()
            counts.append((weights, weights * units // len(layer.weight), units))

        for layer in (m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)):
            layer.register_forward_hook(count)
        model.eval()(images(2, image))
        expected = sizes(name, d=9 * 7 * 2, width=4, depth=depth, outputs=5, image=image)
        weights, products, units = map(sum, zip(*counts, strict=True))
        if family == "vit":
            products += depth * 2 * (5 * 4) ** 2 * 4  # queries with keys, shares of values
        sizes_here = (expected.weights, expected.products, expected.units)
        assert sizes_here == (weights, products, units - 5)
        layers = {"residual_mlp": depth + 2, "vit": 1 + 6 * depth + 1, "resnet": depth}
        assert len(counts) == layers.get(family, depth + 1)
        f, u = model.train()(images(3, image))
        assert (f.shape, len(u)) == ((3, 5), 3)
        (f * torch.arange(5)).sum().backward()
        reached = [parameter.grad.any() for parameter in model.parameters()]
        assert all(reached) or "fixup" in name  # whose classifier begins at zero
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("activation", ["normrelu", "relu"])
def test_weights_begin_as_the_paper_says(activation):
    """N(0, 1/(9 channels out)) times the gain², agarwal2021deep section 7; biases are zero."""
    squared = activations.get(activation).gain ** 2
    model = network("resnet", 8, 32, activation=activation)
    for layer in (each for each in model.modules() if isinstance(each, nn.Conv2d)):
        assert not layer.bias.any()
        # The variance of m samples is known to sqrt(2/m).
        expected, m = squared / (9 * layer.out_channels), layer.weight.numel()
        assert layer.weight.var().item() == pytest.approx(expected, rel=5 * math.sqrt(2 / m))


def test_fixup_begins_at_zero_scales_its_branches_and_slows_its_scalars():
    model = network("resnet_fixup", 20, 32)
    assert not model(images(4))[0].any()
    for block in (each for each in model.body if hasattr(each, "branch")):
        weight = block.branch[1].weight  # L^(-1/2) of He et al.'s, with L = 9 branches
        assert weight.var().item() == pytest.approx(2 / (9 * len(weight)) / 9, rel=0.2)
    scalars = {parameter for parameter in model.parameters() if parameter.shape == ()}
    assert len(scalars) == 9 * (4 + 1) + 2  # biases and a factor of a branch, biases at the ends
    assert {*model.rate_groups()[0.1]} == scalars


@pytest.mark.parametrize(("name", "norm"), [("batch", nn.BatchNorm1d), ("layer", nn.LayerNorm)])
def test_normalisations_stand_between_products_without_biases_and_activations(name, norm):
    layers = [*network(f"fc_{name}_norm", 2, 4).body][1:]
    assert [*map(type, layers)] == [nn.Linear, norm, Elementwise] * 2
    assert layers[0].bias is layers[3].bias is None
    # of images over everything but samples
    assert network("resnet_layer_norm", 8, 4).body[0][1].num_groups == 1


def test_shortcuts_are_the_identity_with_zeros():
    """Option A of He et al.: with branches of zero a block is the activation of its shortcut."""
    body, x = network("resnet_fixup", 8, 4).body, images(2)
    stem, second = body[:3](x), body[:7](x)
    assert second.shape == (2, 8, 4, 4)
    torch.testing.assert_close(second[:, :4], stem[:, :, ::2, ::2])
    assert not second[:, 4:].any()


def by_hand(name, x, weights, gain):
    """Return the outputs of depth 2 of networks in the NTK parameterisation, by their formulas."""
    sigma, (first, second, third, *rest) = nn.functional.relu, weights.values()
    m = len(first)
    if name == "mlp_bias":
        w, b = [first, third, rest[1]], [second, rest[0], rest[2]]
        alpha = x.flatten(1)
        for layer in (0, 1):
            alpha = gain / math.sqrt(m) * sigma(alpha @ w[layer].T + 0.1 * b[layer])
        return alpha @ w[2].T + 0.1 * b[2]
    if name.startswith("residual"):
        u, s = x.flatten(1) @ first.T, 1 if name == "residual_mlp" else 1 / math.sqrt(2)
        for v in (second, third):
            u = u + s * gain / math.sqrt(m) * sigma(u) @ v.T
        return u @ rest[0].T / math.sqrt(m)
    a = x
    for w in (first, second):
        a = gain / math.sqrt(m) * sigma(nn.functional.conv2d(a, w, padding=1) / 3)
    pixels = a.shape[-1] * a.shape[-2]
    u = a.mean((2, 3)) if name == "conv_pool" else a.flatten(1) / math.sqrt(pixels)
    return u @ third.T


NTK_PARAMETERISED = ["mlp_bias", "residual_mlp", "residual_mlp_scaled", "conv", "conv_pool"]


@pytest.mark.parametrize("name", NTK_PARAMETERISED)
def test_ntk_parameterisations_are_their_formulas(name):
    """With weights and biases N(0, 1): more than 1000 of them have a deviation within 10 %."""
    model, x = network(name, 2, 24), images(3)
    expected = by_hand(name, x, model.state_dict(), math.sqrt(2))
    torch.testing.assert_close(model(x)[0], expected, rtol=1e-12, atol=1e-12)
    for parameter in model.parameters():
        assert parameter.numel() < 1000 or parameter.std().item() == pytest.approx(1, rel=0.1)
    everything = torch.cat([parameter.flatten() for parameter in model.parameters()])
    assert everything.std().item() == pytest.approx(1, rel=0.1)


def test_attention_is_that_of_torch():
    """A block's attention with the same weights, and patches in rows with zeros at the edges."""
    model, x = network("vit", 1, 8, image=(9, 7, 2)), images(2, (9, 7, 2))
    tokens = model.body[0](x)
    assert tokens.shape == (2, 5 * 4, 8)
    torch.testing.assert_close(tokens[:, 1], x[:, :, :2, 2:4].flatten(1))
    assert not tokens[:, 3].unflatten(-1, (2, 2, 2))[..., 1].any()
    u = torch.randn(2, 20, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ours = model.body[3].branch[1]
    theirs = nn.MultiheadAttention(8, 4, batch_first=True, dtype=torch.float64)
    theirs.out_proj = ours.output
    layers = ours.query, ours.key, ours.value
    theirs.in_proj_weight.data = torch.cat([layer.weight for layer in layers])
    theirs.in_proj_bias.data = torch.cat([layer.bias for layer in layers])
    torch.testing.assert_close(ours(u), theirs(u, u, u)[0], rtol=1e-12, atol=1e-12)


EXAMPLE = Path(__file__).parents[3] / "docs/examples/own_network.py"
SIZE = {"depth": 2, "outputs": 3, "activation": activations.get("relu")}
BUILD = """\
import numpy as np
import torch
from torch import nn

def build(*, depth, width, activation, shape, outputs, generator):
    network = nn.Linear(shape[0], outputs)
    for parameter in network.parameters():
        parameter.data.normal_(generator=generator)
    return """


def tried(folder, text):
    """Check the network that a file builds, or that the text returns, and measure its sizes."""
    path = folder / "mine.py"
    path.write_text(text if "def " in text else BUILD + text)
    size = SIZE | {"d": 64, "image": None, "width": 8}
    model = user_models.load(path, "build")
    user_models.require_trainable(model, **size)
    return user_models.measure_sizes(model, **size)


FAILS = "build() gives a network that fails on {} samples of shape (64,): RuntimeError"
# A file, or what is returned -> how the line of the error goes on after the file's name.
MISTAKES = {
    "def other(): pass": "build() is not there; write def build(*, depth, width, activation,",
    "def build(depth, width): pass": "build() takes other arguments (got an unexpected keyword",
    "raise ValueError('a\\nb') # def ": "line 1: ValueError: a b",
    "nn.Linear(shape, 1)": "build() fails at depth 2, width 8, shape (64,): line 9: TypeError: ",
    "1": "build() returns a int, and not a torch.nn.Module",
    "nn.LazyLinear(3)": "build() returns a module with lazy layers; give them their number of inp",
    "nn.Flatten()": "build() returns a module without weights to train",
    "nn.Linear(shape[0], outputs)": "build() gives other weights each time: draw all from",
    "nn.Sequential(nn.Conv2d(1, 1, 3), network)": "build() gives other weights each time",
    "network.apply(lambda m: m.weight.data.mul_(np.random.rand()))": "build() gives other weights",
    "torch.manual_seed(0) and nn.Linear(64, 3)": "build() gives the same weights for every seed",
    "nn.Sequential(network, nn.Unflatten(1, (1, 3)))": (
        "build() gives a network whose outputs for 2 samples are (2, 1, 3); with outputs=3 they"
    ),
    "nn.Sequential(nn.Unflatten(1, (2, 32)), network)": FAILS.format(2),
    "nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (2, 64)), network)": FAILS.format(3),
    "network.register_forward_hook(lambda layer, x, f: f.detach()) and network": (
        "build() gives a network whose outputs have no gradient: do not detach them"
    ),
    "nn.Sequential(nn.ReLU(inplace=True), network)": "build() gives a network that changes its in",
    "network.apply(lambda m: m.weight.data.log_())": "build() draws weights that are not finite: w",
    "nn.Sequential(network, nn.Dropout())": "build() gives a network whose outputs differ from one",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_one_line(tmp_path, text):
    with pytest.raises(UserError) as caught:
        tried(tmp_path, text)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{tmp_path / 'mine.py'}: {MISTAKES[text]}")


def test_torchs_usual_initialisation_can_be_kept_and_layers_may_return_lists(tmp_path):
    """With its seed set in the function, which changes nothing outside."""
    state, seeded = torch.random.get_rng_state(), "torch.manual_seed(generator.initial_seed())"
    inner = "(layer := nn.Linear(64, 3)).register_forward_hook(lambda m, x, f: [f])"
    outer = "(outer := nn.Sequential(layer)).register_forward_hook(lambda m, x, f: f[0])"
    sizes = tried(tmp_path, f"({seeded}, {inner}, {outer}) and outer")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (sizes.weights, sizes.products, sizes.units) == (64 * 3 + 3, 64 * 3 + 3, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_example_is_built_from_a_seed(dtype):
    """Two colours of 6 × 4 pixels: shape, type, sizes by hand, and weights of the gain's scale."""
    size = SIZE | {"d": 48, "image": (6, 4, 2), "width": 32}
    model = user_models.load(EXAMPLE, "build")
    one, other = (
        user_models.make_user_network(model, np.random.default_rng(seed), **size, dtype=dtype)
        for seed in (1, 2)
    )
    f, u = one(torch.ones(5, 2, 6, 4, dtype=dtype))
    assert (f.shape, f.dtype, u) == ((5, 3), dtype, None)
    assert not torch.equal(f, other(torch.ones(5, 2, 6, 4, dtype=dtype))[0])
    second = dict(one.named_parameters())["body.0.3.weight"]
    assert second.var().item() == pytest.approx(2 / (9 * 32), rel=0.1)  # 9216 weights
    expected = user_models.measure_sizes(model, **size)
    convolutions, norms, head = 9 * 2 * 32 + 9 * 32 * 32, 2 * 2 * 32, 4 * 32 * 3
    assert expected.weights == convolutions + norms + head
    assert expected.products == 24 * convolutions + head
    assert [*one.rate_groups()] == [1.0]
