"""Layers of the networks in `networks.modules` that torch does not have."""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from ntk_conditioning.networks.activations import Activation

Combine: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class Bias(nn.Module):
    """x + β b, with a learnt b of the shape of a sample or of its last axes."""

    def __init__(self, b: Tensor, scale: float = 1.0) -> None:
        super().__init__()
        self.b, self._scale = nn.Parameter(b), scale

    def forward(self, x: Tensor) -> Tensor:
        return x + self._scale * self.b


class Scalar(nn.Module):
    """A learnt number that is added to all entries or multiplied with them."""

    def __init__(self, combine: Combine, value: float, dtype: torch.dtype) -> None:
        super().__init__()
        self._combine, self.value = combine, nn.Parameter(torch.full((), value, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return self._combine(x, self.value)


class Attention(nn.Module):
    """Self-attention of tokens (n, t, m), softmax(q kᵀ/√(m/heads)) v in each head."""

    def __init__(
        self, query: nn.Linear, key: nn.Linear, value: nn.Linear, output: nn.Linear, *, heads: int
    ) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = query, key, value, output
        self._heads = heads

    def forward(self, x: Tensor) -> Any:
        layers = (self.query, self.key, self.value)
        q, k, v = (
            layer(x).unflatten(-1, (self._heads, -1)).transpose(-3, -2)  # (n, heads, t, m/heads)
            for layer in layers
        )
        attended = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1) @ v
        return self.output(attended.transpose(-3, -2).flatten(-2))


class Map(nn.Module):
    """A fixed function of the input."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: Tensor) -> Tensor:
        return self._function(x)


def patches(x: Tensor, side: int) -> Tensor:
    """Return images (n, colours, height, width) as patches (n, t, colours · side²), in rows.

    Zeros continue an image whose sides are no multiples of a patch's.
    """
    below, right = (-length % side for length in x.shape[-2:])
    padded = functional.pad(x, (0, right, 0, below))
    return functional.unfold(padded, side, stride=side).transpose(1, 2)


class Residual(nn.Module):
    """x + branch(x)."""

    def __init__(self, *branch: nn.Module) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)

    def forward(self, x: Tensor) -> Any:
        return x + self.branch(x)


class Block(nn.Module):
    """σ(shortcut(x) + branch(x)), with convolutions in the branch (He et al. 2016).

    The shortcut has every ``stride``-th row and column, with zeros for ``added`` channels.
    """

    def __init__(
        self, branch: Iterable[nn.Module], sigma: nn.Module, *, added: int, stride: int
    ) -> None:
        super().__init__()
        self.branch, self.sigma = nn.Sequential(*branch), sigma
        self._added, self._stride = added, stride

    def forward(self, x: Tensor) -> Any:
        shortcut = x[:, :, :: self._stride, :: self._stride]
        if self._added:
            shortcut = functional.pad(shortcut, (0, 0, 0, 0, 0, self._added))
        return self.sigma(shortcut + self.branch(x))


class Elementwise(nn.Module):
    """An activation, which torch differentiates to its registered derivative."""

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.gain, self._function = activation.gain, activation.function

    def forward(self, z: Tensor) -> Tensor:
        return self._function(z)
