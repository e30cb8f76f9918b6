"""A module and the images that its kernel is measured on, and what that kernel costs at least."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import networks

#: What the networks are called in tables.
TITLES = {"cnn": "CNN", "resnet20": "ResNet-20", "vit": "ViT"}


@dataclass(frozen=True)
class ModuleProblem:
    """One of `networks.NETWORKS` on ``n`` images."""

    name: str
    n: int
    dtype: str = "float64"

    def __str__(self) -> str:
        return f"{TITLES[self.name]}, n {self.n:,}, {self.dtype}"

    def network(self) -> nn.Module:
        """The network."""
        return networks.build(self.name, getattr(torch, self.dtype))

    def data(self) -> Tensor:
        """The images (n, 3, 32, 32)."""
        return networks.images(self.n, getattr(torch, self.dtype))

    def save(self, path: Path) -> None:
        """Write the network's name, its parameters and the images for another process."""
        parameters = {name: p.detach().numpy() for name, p in self.network().named_parameters()}
        np.savez(path, network=self.name, x=self.data().numpy(), **parameters)

    @property
    def flops(self) -> float:
        """The flops of the cheaper way for every layer."""
        return needed_flops(self.network(), self.data()[:1], self.n)

    @property
    def kernel_bytes(self) -> int:
        """The size of the kernel."""
        return self.n**2 * np.dtype(self.dtype).itemsize


def needed_flops(model: nn.Module, sample: Tensor, n: int) -> float:
    """Return the flops of both passes and of the cheaper way for every layer.

    A layer of w = in · out weights (in: of a patch, for a convolution) at T positions per sample
    takes 2 n T w forward, as much back to its inputs, which the first layer does without, and

        min(2 n T w + n² w,  n² T² (in + out)):

    the gradients of all samples and half of their n × n product, or half of the products of the
    inputs and of the deltas at all pairs of positions. Where T = 1 the gradients are outer
    products, which need no sum over positions, so only n² w is counted for the first. Biases,
    norms, attention's products of two activations and entrywise work are not counted.
    """
    shapes: list[tuple[int, int, int]] = []

    def watch(layer: nn.Module, _: object, out: Tensor) -> None:
        weight = layer.weight
        shapes.append((out[0].numel() // len(weight), weight[0].numel(), len(weight)))

    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    handles = [layer.register_forward_hook(watch) for layer in layers]
    with torch.no_grad():
        model(sample)
    for handle in handles:
        handle.remove()
    maps = [positions * inputs * outputs for positions, inputs, outputs in shapes]
    passes = 2 * n * sum(maps) + 2 * n * sum(maps[1:])
    return passes + sum(layer_flops(n, *shape) for shape in shapes)


def layer_flops(n: int, positions: int, inputs: int, outputs: int) -> float:
    """Return the flops of a layer's part of the kernel in the cheaper way.

    >>> layer_flops(10, 1, 4, 3), layer_flops(10, 9, 4, 3)
    (700, 3360)
    """
    weights = inputs * outputs
    gradients = 2 * n * positions * weights if positions > 1 else 0
    return min(gradients + n**2 * weights, n**2 * positions**2 * (inputs + outputs))
