"""The problem as a module of torch, for the peers that use it."""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from worker import load

sys.path.append(str(Path(__file__).parents[1]))
import networks


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


def load_model(path: str) -> tuple[nn.Module, Tensor]:
    """Return the network of PROBLEM.npz and its samples."""
    with np.load(path) as file:
        if "network" in file.files:
            x = torch.from_numpy(file["x"])
            return networks.build(str(file["network"]), x.dtype), x
    data, matrices, scales = load(path)
    first, *others = (linear(torch.from_numpy(w)) for w in matrices)
    hidden = [m for s, layer in zip(scales, others, strict=True) for m in (ScaledReLU(s), layer)]
    return nn.Sequential(first, *hidden), torch.from_numpy(data)
