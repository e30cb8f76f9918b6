"""Networks of torch's modules, by name: those of agarwal2021deep's experiments.

Each gives the representation of its input that the classifier sees, and the classifier.
docs/agarwal2021deep.md says how what the paper leaves open is settled. Weights come from a NumPy
generator: one seed gives one network on every device, and torch's own generator is not touched.
"""

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.architectures import MODELS, STAGES, Model, blocks

Combine: TypeAlias = Callable[[Tensor, Tensor], Tensor]

#: Part of the learning rate that Fixup's scalars get, as in its authors' code.
SCALAR_RATE = 0.1


class Linear(nn.Linear):
    """A linear layer for which torch draws no weights."""

    def reset_parameters(self) -> None:
        pass


class Conv2d(nn.Conv2d):
    """A convolution for which torch draws no weights."""

    def reset_parameters(self) -> None:
        pass


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

    It takes samples (n, d), or for a resnet images (n, colours, height, width); ``image`` is their
    height, width and colours.
    """
    builder = _Builder(MODELS[name], rng, activation, dtype)
    if builder.model.family == "fc":
        return builder.fully_connected([d, *[width] * depth], outputs)
    if image is None:
        raise ValueError(f"{name} needs the shape of an image")
    return builder.resnet(image[2], width, depth, outputs)


@dataclass(frozen=True)
class _Builder:
    """Makes the layers of a network, whose normal weights are drawn one layer after the other.

    Biases begin at zero. A layer that is followed by a normalisation needs none.
    """

    model: Model
    rng: np.random.Generator
    activation: Activation
    dtype: torch.dtype

    def fully_connected(self, widths: list[int], outputs: int) -> Network:
        """Return a network with weights N(0, gain²/m) on m activations, N(0, 1/d) on x."""
        after, squared = self.model.after_activation, 1.0
        bias = after or self.model.normalization == "none"
        body: list[nn.Module] = [nn.Flatten()]
        for inputs, units in pairwise(widths):
            body.append(self._layer(Linear, inputs, units, variance=squared / inputs, bias=bias))
            norm, sigma = self._normalization(units, images=False), Elementwise(self.activation)
            body += [sigma, norm] if after else [norm, sigma]
            squared = 1.0 if after else self.activation.gain**2
        last = widths[-1]
        return Network(body, self._layer(Linear, last, outputs, variance=squared / last))

    def resnet(self, colours: int, width: int, depth: int, outputs: int) -> Network:
        """Return He et al.'s (2016, section 4.2) network for CIFAR, or one without normalisation.

        Weights are N(0, gain²/(9 channels out)): for normalised activations the initialisation of
        agarwal2021deep, section 7, and for ReLU that of He et al.

        With Fixup (Zhang et al. 2019, section 3) the last convolution of each of the L branches and
        the classifier begin at zero, the others of the m = 2 in a branch are scaled by
        L^(-1/(2m-2)); a scalar bias stands before every convolution, activation and the classifier,
        and a scalar factor at a branch's end.
        """
        fixup, squared = self.model.fixup, self.activation.gain**2
        plain = self.model.normalization == "none" and not fixup
        layout = [*blocks(width, depth)]
        first, second = (1 / len(layout), 0.0) if fixup else (1.0, 1.0)  # factors of variances

        def scalar(combine: Combine, value: float) -> list[nn.Module]:
            return [Scalar(combine, value, self.dtype)] if fixup else []

        def bias() -> list[nn.Module]:
            return scalar(operator.add, 0.0)

        def sigma() -> nn.Module:
            return Elementwise(self.activation)

        def convolve(
            inputs: int, channels: int, stride: int = 1, factor: float = 1.0
        ) -> list[nn.Module]:
            variance = factor * squared / 9 / channels
            options = {"stride": stride, "padding": 1, "bias": plain}
            layer = self._layer(Conv2d, inputs, channels, 3, variance=variance, **options)
            return [layer] if fixup else [layer, self._normalization(channels, images=True)]

        body = [*convolve(colours, width), *bias(), sigma()]
        for inputs, channels, stride in layout:
            branch = [*bias(), *convolve(inputs, channels, stride, first), *bias(), sigma()]
            branch += [*bias(), *convolve(channels, channels, factor=second)]
            branch += [*scalar(operator.mul, 1.0), *bias()]
            body.append(Block(branch, sigma(), added=channels - inputs, stride=stride))
        top = width << (STAGES - 1)
        head = self._layer(Linear, top, outputs, variance=0.0 if fixup else squared / top)
        return Network([*body, Pool(), *bias()], head)

    def _layer(self, kind: type[nn.Module], *shape: int, variance: float, **options: Any) -> Any:
        """Return a layer whose weights have the given variance."""
        layer: Any = kind(*shape, dtype=self.dtype, **options)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.zero_()
            if variance:
                weights = self.rng.standard_normal(layer.weight.shape)
                layer.weight.copy_(torch.from_numpy(weights * math.sqrt(variance)))
        return layer

    def _normalization(self, units: int, *, images: bool) -> nn.Module:
        """Return a normalisation of so many units or channels, with scale 1 and shift 0.

        Layer normalisation of images is over channels, rows and columns, with a scale and a shift
        for each channel: torch's GroupNorm of a single group.
        """
        if self.model.normalization == "batch":
            norm = nn.BatchNorm2d if images else nn.BatchNorm1d
            return norm(units, dtype=self.dtype)
        if self.model.normalization == "layer":
            if images:
                return nn.GroupNorm(1, units, dtype=self.dtype)
            return nn.LayerNorm(units, dtype=self.dtype)
        return nn.Identity()


# --- layers ---------------------------------------------------------------------------------------


class Pool(nn.Module):
    """The mean over rows and columns (n, channels)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((-2, -1))


class Block(nn.Module):
    """σ(shortcut(x) + branch(x)), with two convolutions in the branch (He et al. 2016).

    The shortcut is the identity, or every second row and column with zeros for the channels that
    are ``added`` (option A).
    """

    def __init__(
        self, branch: Iterable[nn.Module], sigma: nn.Module, *, added: int, stride: int
    ) -> None:
        super().__init__()
        self.branch, self.sigma = nn.Sequential(*branch), sigma
        self._added, self._stride = added, stride

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x[:, :, :: self._stride, :: self._stride]
        if self._added:
            shortcut = functional.pad(shortcut, (0, 0, 0, 0, 0, self._added))
        out: Tensor = self.sigma(shortcut + self.branch(x))
        return out


class Scalar(nn.Module):
    """A number that is learnt, and added to everything or multiplied with it."""

    def __init__(self, combine: Combine, value: float, dtype: torch.dtype) -> None:
        super().__init__()
        self._combine, self.value = combine, nn.Parameter(torch.full((), value, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return self._combine(x, self.value)


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
