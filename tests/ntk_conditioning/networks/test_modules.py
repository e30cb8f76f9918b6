"""Deep networks have the published sizes, initialisations and invariances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.architectures import MODELS, sizes
from ntk_conditioning.networks.modules import Network, Scalar, make_network

CIFAR = (32, 32, 3)
SMALL = (8, 8, 3)


def network(
    name: str,
    depth: int,
    width: int,
    *,
    activation: str | Activation = "relu",
    image: tuple[int, int, int] = SMALL,
    seed: int = 1,
    outputs: int = 10,
) -> Network:
    if isinstance(activation, str):
        activation = activations.get(activation)
    return make_network(
        name,
        np.random.default_rng(seed),
        d=math.prod(image),
        image=image,
        depth=depth,
        width=width,
        activation=activation,
        outputs=outputs,
        dtype=torch.float64,
    )


def images(n: int, image: tuple[int, int, int] = SMALL, *, seed: int = 0) -> Tensor:
    height, width, colours = image
    return torch.from_numpy(
        np.random.default_rng(seed).standard_normal((n, colours, height, width))
    )


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "published"),
    [(20, "0.27 M"), (32, "0.46 M"), (44, "0.66 M"), (56, "0.85 M"), (110, "1.7 M")],
)
def test_resnets_have_as_many_parameters_as_published(depth, published):
    """He et al. 2016, Table 6."""
    digits = len(published.split()[0].split(".")[1])
    found = parameters(network("resnet_batch_norm", depth, 16, image=CIFAR)) / 1e6
    assert f"{found:.{digits}f} M" == published


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mlp"])
def test_sizes_are_those_of_the_networks(name):
    """Counted here by hooks at every layer with weights; an odd image, for strides."""
    image = (9, 7, 2)
    depth = 14 if MODELS[name].needs_images else 3
    model = network(name, depth, 4, image=image, outputs=5)
    found = {"weights": 0, "products": 0, "units": 0}
    layers = []

    def count(layer: Any, given: tuple[Tensor], out: Tensor) -> None:
        places = out[0].numel() // len(layer.weight)
        layers.append(layer)
        found["weights"] += layer.weight.numel()
        found["products"] += layer.weight.numel() * places
        found["units"] += out[0].numel()

    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            layer.register_forward_hook(count)
    model.eval()(images(2, image))
    expected = sizes(name, d=9 * 7 * 2, width=4, depth=depth, outputs=5, image=image)
    assert (expected.weights, expected.products) == (found["weights"], found["products"])
    assert expected.units == found["units"] - 5
    assert len(layers) == (depth if MODELS[name].needs_images else depth + 1)


# --- initialisation -------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["normrelu", "selu", "relu"])
def test_weights_begin_as_the_paper_says(activation):
    """N(0, 1/(9 channels out)) times the gain², agarwal2021deep section 7; biases are zero."""
    squared = activations.get(activation).gain ** 2
    for layer in network("resnet", 8, 32, activation=activation).modules():
        if isinstance(layer, nn.Conv2d):
            assert not layer.bias.any()
            # The variance of m samples is known to sqrt(2/m).
            expected, m = squared / (9 * layer.out_channels), layer.weight.numel()
            assert layer.weight.var().item() == pytest.approx(expected, rel=5 * math.sqrt(2 / m))


def scale_of_change(name: str, depth: int, *, steps: int) -> float:
    """Return by how much a step of gradient descent changes the outputs, after some others."""
    model, x = network(name, depth, 8, seed=depth), images(16)
    labels = torch.arange(16) % 10
    before = model(x)[0].detach()
    for _ in range(steps):
        f, _ = model(x)
        before = f.detach()
        nn.functional.cross_entropy(f, labels).backward()
        with torch.no_grad():
            for factor, group in model.rate_groups().items():
                for parameter in group:
                    parameter -= 0.01 * factor * parameter.grad
        model.zero_grad()
    return (model(x)[0] - before).norm().item()


def test_fixup_begins_at_zero_and_its_updates_do_not_depend_on_depth():
    """Zhang et al. 2019: a step changes the outputs by as much as the rate, whatever the depth."""
    depths = (8, 20, 56)
    for depth in depths:
        assert not network("resnet_fixup", depth, 8)(images(4))[0].any()
    for steps in (1, 3):
        changes = [scale_of_change("resnet_fixup", depth, steps=steps) for depth in depths]
        assert max(changes) < 2 * min(changes)
    plain = [scale_of_change("resnet", depth, steps=1) for depth in depths]
    assert max(plain) > 100 * min(plain)


def test_fixup_scales_its_branches_and_slows_its_scalars():
    model = network("resnet_fixup", 20, 32)
    firsts = [block.branch[1].weight for block in model.body if hasattr(block, "branch")]
    for weight in firsts:  # L^(-1/2) of He et al.'s, with L = 9 branches
        expected = 2 / (9 * len(weight)) / 9
        assert weight.var().item() == pytest.approx(expected, rel=0.2)
    scalars = {p for m in model.modules() if isinstance(m, Scalar) for p in m.parameters()}
    assert len(scalars) == 9 * (4 + 1) + 2  # biases and a factor of a branch, biases at the ends
    assert {*model.rate_groups()[0.1]} == scalars


# --- Lemma 1 --------------------------------------------------------------------------------------


def epsilon(model: Network, value: float) -> Network:
    for module in model.modules():
        if hasattr(module, "eps"):
            module.eps = value
    return model


@pytest.mark.parametrize("name", ["fc_batch_norm", "fc_layer_norm_after"])
def test_normalisation_does_not_see_whether_an_activation_is_normalised(name):
    """Lemma 1 of agarwal2021deep, in training mode and with an ε that is nothing.

    With batch normalisation before activations the last ones, which nothing normalises any more,
    differ by just the normalisation of the activation.
    """
    plain, normal = (
        epsilon(network(name, 5, 40, activation=activation), 1e-30)
        for activation in ("softplus", "normalized_softplus")
    )
    with torch.no_grad():
        for one, other in zip(plain.parameters(), normal.parameters(), strict=True):
            other.copy_(one)
    x = images(30)
    (f, u), (g, v) = plain(x), normal(x)
    if name == "fc_layer_norm_after":
        torch.testing.assert_close(f, g, rtol=0, atol=1e-10 * f.abs().max().item())
        return
    slope, shift = (v.std() / u.std()).item(), v.mean().item()
    assert slope > 1.5
    torch.testing.assert_close(v, slope * (u - u.mean()) + shift, rtol=0, atol=1e-9)
    assert (f - g).abs().max() > 0.1


def test_layer_normalisation_of_a_resnet_is_over_everything_but_samples():
    model, x = network("resnet_layer_norm", 8, 4), images(3)
    z = model.body[0](x)
    normed = model.body[1](z)
    torch.testing.assert_close(normed.mean((1, 2, 3)), torch.zeros(3, dtype=z.dtype))
    torch.testing.assert_close(
        normed.var((1, 2, 3), correction=0), torch.ones(3, dtype=z.dtype), rtol=1e-3, atol=0
    )


# --- blocks ---------------------------------------------------------------------------------------


def test_shortcuts_are_the_identity_with_zeros():
    """Option A of He et al.: with branches of zero a block is the activation of its shortcut."""
    model = network("resnet_fixup", 8, 4).eval()
    x = images(2)
    stem = model.body[2](model.body[1](model.body[0](x)))
    second = model.body[4](model.body[3](stem))
    assert second.shape == (2, 8, 4, 4)
    torch.testing.assert_close(second[:, :4], stem[:, :, ::2, ::2])
    assert not second[:, 4:].any()


@pytest.mark.parametrize("activation", ["relu", "normrelu", "selu", "tanh"])
def test_the_gradient_is_the_registered_derivative(activation):
    model = network("fc", 1, 6, activation=activation, outputs=1)
    x = images(4).requires_grad_()
    model(x)[0].sum().backward()
    z = model.body[1](x.flatten(1)).detach()
    slopes = torch.from_numpy(activations.get(activation).slopes(z.numpy()))
    expected = (model.head.weight * slopes) @ model.body[1].weight
    torch.testing.assert_close(x.grad.flatten(1), expected)
