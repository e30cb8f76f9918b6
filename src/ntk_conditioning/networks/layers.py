"""Layers of the networks in `networks.modules` that torch does not have."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from torch import Tensor, nn
from torch.nn import functional

from ntk_conditioning.networks.activations import Activation

Combine: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class Learnt(nn.Module):
    """combine(x, value) with a learnt value, of the shape of a sample or of its last axes."""

    def __init__(self, combine: Combine, value: Tensor) -> None:
        super().__init__()
        self._combine, self.value = combine, nn.Parameter(value)

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
    """shortcut(x) + branch(x), by default with x itself."""

    def __init__(self, *branch: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.branch, self._shortcut = nn.Sequential(*branch), shortcut or nn.Identity()

    def forward(self, x: Tensor) -> Any:
        return self._shortcut(x) + self.branch(x)


def thinned(x: Tensor, *, stride: int, added: int) -> Tensor:
    """Return every ``stride``-th row and column of images, with zeros for ``added`` channels."""
    return functional.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, 0, added))


class Elementwise(nn.Module):
    """An activation, which torch differentiates to its registered derivative."""

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.gain, self._function = activation.gain, activation.function

    def forward(self, z: Tensor) -> Tensor:
        return self._function(z)
