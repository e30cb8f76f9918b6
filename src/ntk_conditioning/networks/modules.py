"""Layers of torch with weights from a NumPy generator, and what torch has no layer for.

The same seed gives the same network on every device; torch's own generator is not touched.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init

from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.architectures import Normalization

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
