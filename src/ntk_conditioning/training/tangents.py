"""Fully connected networks of several outputs, and the gradients of all outputs in factored form.

Weights are W_1 (m_1, d), …, W_(L+1) (c, m_L) as in `networks.mlp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.mlp import MLP, activate, draw_weights
from ntk_conditioning.seeds import generator


@dataclass(frozen=True)
class Architecture:
    """A fully connected network: its hidden layers, their width and their activation."""

    depth: int
    width: int
    activation: Activation

    def draw(self, d: int, outputs: int, *, seed: int, like: Tensor) -> list[Tensor]:
        """Return the weights that training starts from, of ``like``'s type and on its device."""
        size = {"depth": self.depth, "width": self.width, "outputs": outputs}
        return [w.to(like) for w in draw_weights(d, **size, generator=generator(seed, "init"))]


@dataclass(frozen=True, eq=False)
class Tangent:
    """Gradients of a network's c outputs at n samples, as outer products, and the outputs there.

    The gradient of output a at sample i in W_l is deltas[l-1][i, :, a] alphas[l-1][i]^T, with
    ``deltas`` (n, m_l, c) and ``alphas`` (n, m_(l-1)). Of the last layer, where delta is the unit
    vector of the output, only the alphas are stored; ``f`` is (n, c).
    """

    f: Tensor
    alphas: tuple[Tensor, ...]
    deltas: tuple[Tensor, ...]

    def outputs(self, changes: Sequence[Tensor]) -> Tensor:
        """Return the outputs (r, n, c) of r networks, by the changes (r, m_l, m_(l-1)) of W_l."""
        total = self.f + self.alphas[-1] @ changes[-1].mT
        for alpha, delta, change in zip(self.alphas, self.deltas, changes, strict=False):
            r, height, width = change.shape
            moved = (alpha @ change.view(r * height, width).T).view(len(alpha), r, height)
            # MKL multiplies many small matrices five times as fast if the second is not transposed
            total += (moved @ delta).movedim(1, 0)
        return total

    def add_gradients(self, changes: Sequence[Tensor], pull: Tensor) -> None:
        """Add to the ``changes`` the gradients of all outputs, weighted by ``pull`` (r, n, c)."""
        changes[-1].baddbmm_(pull.mT, self.alphas[-1].expand(len(pull), -1, -1))
        weights = pull.movedim(0, 1).contiguous()
        for alpha, delta, change in zip(self.alphas, self.deltas, changes, strict=False):
            r, height, width = change.shape
            back = torch.bmm(weights, delta.mT).view(len(alpha), r * height)
            change.view(r * height, width).addmm_(back.T, alpha)

    def kernel(self) -> Tensor:
        """Return the NTK (n c, n c) of all outputs, sample by sample."""
        n, c = self.f.shape
        unit = torch.eye(c, dtype=self.f.dtype, device=self.f.device)
        k = torch.einsum("ij,ab->iajb", self.alphas[-1] @ self.alphas[-1].T, unit)
        for alpha, delta in zip(self.alphas, self.deltas, strict=False):
            flat = delta.mT.reshape(n * c, -1)
            k.addcmul_((flat @ flat.T).view(n, c, n, c), (alpha @ alpha.T)[:, None, :, None])
        return k.reshape(n * c, n * c)


@torch.no_grad()
def tangent(weights: Sequence[Tensor], activation: Activation, x: Tensor) -> Tangent:
    """Return the network's outputs and gradients at ``weights``, for ``x`` (n, d)."""
    alphas, slopes = [x], []
    for weight in weights[:-1]:
        scale = activation.gain / math.sqrt(len(weight))
        value, slope = activate(activation, alphas[-1] @ weight.T)
        slopes.append(slope(torch.full_like(value, scale)))
        alphas.append(scale * value)
    back, deltas = weights[-1].expand(len(x), -1, -1), []  # (n, c, m_l)
    for layer in reversed(range(len(slopes))):
        back = back * slopes[layer][:, None]
        deltas.append(back.mT.contiguous())
        if layer:
            back = back @ weights[layer]
    return Tangent(alphas[-1] @ weights[-1].T, tuple(alphas), tuple(reversed(deltas)))


def mlp_kernel(weights: Sequence[Tensor], activation: Activation, x: Tensor) -> Tensor:
    """Return the mean (n, n) over outputs of the kernels of one each, in the type of the weights.

    >>> from ntk_conditioning.networks import activations
    >>> two = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
    >>> mlp_kernel([two], activations.get("linear"), two).tolist()
    [[1.0, 0.0], [0.0, 9.0]]
    """
    *inner, last = weights
    k = x.new_zeros(len(x), len(x))
    for row in last:
        k += ntk(MLP((*inner, row[None]), activation), x)
    return k / len(last)


def mlp_outputs(weights: Sequence[Tensor], activation: Activation, x: Tensor) -> Tensor:
    """Return the outputs (n, c) by operations that can be differentiated."""
    for weight in weights[:-1]:
        x = activation.gain / math.sqrt(len(weight)) * activation.function(x @ weight.T)
    return x @ weights[-1].T
