"""NTK by nngeometry's FMatDense, in one batch: PROBLEM.npz."""

import sys

import torch
from nngeometry.backend import TorchHooksJacobianBackend
from nngeometry.object.fspace import FMatDense
from torch import Tensor, nn
from worker import load, serve, threads

torch.set_num_threads(threads())
arrays, matrices, scales = load(sys.argv[1])
x = torch.from_numpy(arrays)


class ScaledReLU(nn.Module):
    """The activation with the factor after the layer, which is no part of the weights."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, z: Tensor) -> Tensor:
        return self.scale * torch.relu(z)


def linear(weight: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    layer.weight.data = weight
    return layer


layers = [linear(torch.from_numpy(w)) for w in matrices]
hidden = [
    module
    for layer, scale in zip(layers[:-1], scales, strict=True)
    for module in (layer, ScaledReLU(scale))
]
generator = TorchHooksJacobianBackend(model=nn.Sequential(*hidden, layers[-1]))
serve(
    lambda: FMatDense(generator=generator, examples=(x,)).to_torch().detach(),
    ["nngeometry", "torch"],
)
