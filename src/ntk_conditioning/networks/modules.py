"""Networks of torch's modules, by name: those of agarwal2021deep's experiments.

Each gives the representation of its input that the classifier sees, and the classifier. What the
paper leaves open is told in docs/agarwal2021deep.md. Weights come from a NumPy generator: the same
seed gives the same network on every device, and torch's own generator is not touched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init

from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.architectures import MODELS, STAGES, Normalization, blocks_per_stage

#: Part of the learning rate that Fixup's scalars get, as in its authors' code.
SCALAR_RATE = 0.1


class Network(nn.Module):
    """A network: ``body`` makes the last hidden representation (n, m), ``head`` the outputs."""

    def __init__(self, body: Iterable[nn.Module], head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(*body), head

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs (n, c) and the representations (n, m)."""
        u = self.body(x)
        return self.head(u), u

    def rate_groups(self) -> dict[float, list[nn.Parameter]]:
        """Return the parameters by the factor of their learning rate, in a fixed order."""
        groups: dict[float, list[nn.Parameter]] = {}
        for module in self.modules():
            factor = SCALAR_RATE if isinstance(module, Scalar) else 1.0
            groups.setdefault(factor, []).extend(module.parameters(recurse=False))
        return {factor: parameters for factor, parameters in groups.items() if parameters}


def make_network(
    name: str,
    rng: np.random.Generator,
    *,
    d: int,
    image: tuple[int, int, int] | None,
    depth: int,
    width: int,
    activation: Activation,
    outputs: int,
    dtype: torch.dtype,
) -> Network:
    """Return a network of a kind in `architectures.MODELS`, at initialisation.

    It takes samples (n, d), or for a resnet images (n, colours, height, width) of the shape
    ``image``: height, width, colours.
    """
    model, build = MODELS[name], Builder(rng, dtype)
    if model.family == "fc":
        return fully_connected(
            build,
            [d, *[width] * depth, outputs],
            activation,
            model.normalization,
            after_activation=model.after_activation,
        )
    if image is None:
        raise ValueError(f"{name} needs the shape of an image")
    layout = {"colours": image[2], "width": width, "blocks": blocks_per_stage(depth)}
    if model.fixup:
        return fixup_resnet(build, activation, outputs=outputs, **layout)
    return resnet(build, activation, model.normalization, outputs=outputs, **layout)


def fully_connected(
    build: Builder,
    sizes: list[int],
    activation: Activation,
    normalization: Normalization,
    *,
    after_activation: bool = False,
) -> Network:
    """Return a fully connected network: weights N(0, gain²/m) on m activations, N(0, 1/d) on x."""
    body: list[nn.Module] = [nn.Flatten()]
    *hidden, outputs = sizes
    squared = 1.0
    for inputs, units in pairwise(hidden):
        plain = normalization == "none" or after_activation
        body.append(build.linear(inputs, units, variance=squared / inputs, bias=plain))
        norm = build.normalization(normalization, units, images=False)
        sigma = Elementwise(activation)
        body += [sigma, norm] if after_activation else [norm, sigma]
        squared = 1.0 if after_activation else activation.gain**2
    head = build.linear(hidden[-1], outputs, variance=squared / hidden[-1])
    return Network(body, head)


class Pool(nn.Module):
    """The mean over rows and columns (n, channels)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((-2, -1))


class Block(nn.Module):
    """σ(shortcut(x) + branch(x)), with two convolutions in the branch (He et al. 2016)."""

    def __init__(self, shortcut: nn.Module, branch: Iterable[nn.Module], sigma: nn.Module) -> None:
        super().__init__()
        self.shortcut, self.branch, self.sigma = shortcut, nn.Sequential(*branch), sigma

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.sigma(self.shortcut(x) + self.branch(x))
        return out


def _stages(width: int, blocks: int) -> Iterable[tuple[int, int, int]]:
    """Yield the channels into and out of every block, and its stride."""
    into = width
    for stage in range(STAGES):
        for number in range(blocks):
            channels = width << stage
            yield into, channels, 2 if stage and not number else 1
            into = channels


def resnet(
    build: Builder,
    activation: Activation,
    normalization: Normalization,
    *,
    colours: int,
    width: int,
    blocks: int,
    outputs: int,
) -> Network:
    """Return He et al.'s (2016, section 4.2) network for CIFAR, or one without normalisation.

    Weights are N(0, gain²/(9 channels out)): for normalised activations the initialisation of
    agarwal2021deep, section 7, and for ReLU that of He et al.
    """
    variance = activation.gain**2 / 9
    plain = normalization == "none"

    def convolve(into: int, channels: int, stride: int = 1) -> list[nn.Module]:
        layer = build.convolution(
            into, channels, variance=variance / channels, stride=stride, bias=plain
        )
        return [layer, build.normalization(normalization, channels, images=True)]

    def sigma() -> nn.Module:
        return Elementwise(activation)

    body = [*convolve(colours, width), sigma()]
    for into, channels, stride in _stages(width, blocks):
        branch = [*convolve(into, channels, stride), sigma(), *convolve(channels, channels)]
        body.append(Block(Shortcut(into, channels, stride), branch, sigma()))
    top = width << (STAGES - 1)
    head = build.linear(top, outputs, variance=activation.gain**2 / top)
    return Network([*body, Pool()], head)


def fixup_resnet(
    build: Builder, activation: Activation, *, colours: int, width: int, blocks: int, outputs: int
) -> Network:
    """Return the same network with Fixup in place of normalisation (Zhang et al. 2019, section 3).

    The last convolution of each of the L branches and the classifier begin at zero, the others of
    the m = 2 in a branch are scaled by L^(-1/(2m-2)); a scalar bias stands before every
    convolution, activation and the classifier, and a scalar factor at a branch's end.
    """
    dtype, squared = build.dtype, activation.gain**2
    scale = 1 / (STAGES * blocks)  # of a variance

    def bias() -> nn.Module:
        return ScalarBias(dtype)

    def convolve(into: int, channels: int, factor: float, stride: int = 1) -> nn.Module:
        variance = factor * squared / (9 * channels)
        return build.convolution(into, channels, variance=variance, stride=stride, bias=False)

    body = [convolve(colours, width, 1.0), bias(), Elementwise(activation)]
    for into, channels, stride in _stages(width, blocks):
        first, last = convolve(into, channels, scale, stride), convolve(channels, channels, 0.0)
        branch = [
            *(bias(), first, bias(), Elementwise(activation)),
            *(bias(), last, ScalarFactor(dtype), bias()),
        ]
        body.append(Block(Shortcut(into, channels, stride), branch, Elementwise(activation)))
    head = build.linear(width << (STAGES - 1), outputs, variance=0.0)
    return Network([*body, Pool(), bias()], head)


# --- layers ---------------------------------------------------------------------------------------


Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)

#: A layer whose weights are not drawn by torch, to be drawn here.
_without_weights: Any = skip_init


class Builder:
    """Makes layers in ``dtype`` with normal weights, drawn one layer after the other.

    Biases begin at zero. A layer that is followed by a normalisation needs none.
    """

    def __init__(self, rng: np.random.Generator, dtype: torch.dtype) -> None:
        self._rng, self.dtype = rng, dtype

    def linear(self, inputs: int, outputs: int, *, variance: float, bias: bool = True) -> nn.Linear:
        """Return a linear layer whose weights have the given variance."""
        layer: nn.Linear = _without_weights(nn.Linear, inputs, outputs, bias=bias, dtype=self.dtype)
        return self._drawn(layer, variance)

    def convolution(
        self, inputs: int, outputs: int, *, variance: float, stride: int = 1, bias: bool = True
    ) -> nn.Conv2d:
        """Return a convolution of 3 × 3 that keeps height and width, up to the stride."""
        options = {"stride": stride, "padding": 1, "bias": bias, "dtype": self.dtype}
        layer: nn.Conv2d = _without_weights(nn.Conv2d, inputs, outputs, 3, **options)
        return self._drawn(layer, variance)

    def _drawn(self, layer: Layer, variance: float) -> Layer:
        with torch.no_grad():
            if variance:
                weights = self._rng.standard_normal(layer.weight.shape)
                layer.weight.copy_(torch.from_numpy(weights * math.sqrt(variance)))
            else:
                layer.weight.zero_()
            if layer.bias is not None:
                layer.bias.zero_()
        return layer

    def normalization(self, kind: Normalization, units: int, *, images: bool) -> nn.Module:
        """Return a normalisation of so many units or channels, with scale 1 and shift 0.

        Layer normalisation of images is over channels, rows and columns, with a scale and a shift
        for each channel: torch's GroupNorm of a single group.
        """
        if kind == "none":
            return nn.Identity()
        if kind == "batch":
            norm = nn.BatchNorm2d if images else nn.BatchNorm1d
            return norm(units, dtype=self.dtype)
        if images:
            return nn.GroupNorm(1, units, dtype=self.dtype)
        return nn.LayerNorm(units, dtype=self.dtype)


class Scalar(nn.Module):
    """A number that is learnt: added to everything, or multiplied with it."""

    def __init__(self, value: float, dtype: torch.dtype) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.full((), value, dtype=dtype))


class ScalarBias(Scalar):
    """x + b, with b = 0 at first."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(0.0, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.value


class ScalarFactor(Scalar):
    """a x, with a = 1 at first."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(1.0, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.value


class Shortcut(nn.Module):
    """The identity, or every second row and column with zeros for the channels that are added.

    Option A of He et al. (2016), which has no weights.
    """

    def __init__(self, channels: int, into: int, stride: int) -> None:
        super().__init__()
        self._added, self._stride = into - channels, stride

    def forward(self, x: Tensor) -> Tensor:
        if self._stride > 1:
            x = x[:, :, :: self._stride, :: self._stride]
        return functional.pad(x, (0, 0, 0, 0, 0, self._added)) if self._added else x


class Elementwise(nn.Module):
    """An activation with its registered derivative, so that both are the kernels' own."""

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self._activation = activation

    def forward(self, z: Tensor) -> Tensor:
        applied: Tensor = _Apply.apply(z, self._activation)  # type: ignore[no-untyped-call]
        return applied


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, z: Tensor, activation: Activation) -> Tensor:
        context.save_for_backward(z)
        context.activation = activation
        return activation.function(z)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (z,) = context.saved_tensors
        return gradients[0] * context.activation.derivative(z), None
