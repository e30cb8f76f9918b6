"""Networks that people train, in plain torch, so that a peer's environment can import them.

Each process draws the same weights and images from seed 0, in float64 before any rounding.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

IMAGE = (3, 32, 32)


def build(name: str, dtype: torch.dtype) -> nn.Module:
    """Return one of `NETWORKS` in evaluation mode, with one output."""
    model = NETWORKS[name]().double()
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        draw(module, generator)
    return model.to(dtype).eval()


def images(n: int, dtype: torch.dtype) -> Tensor:
    """Return Gaussian images (n, 3, 32, 32)."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, *IMAGE, generator=generator, dtype=torch.float64).to(dtype)


@torch.no_grad()
def draw(module: nn.Module, generator: torch.Generator) -> None:
    """Draw a module's own parameters and, for batch norm, statistics as after some training."""
    for name, parameter in module.named_parameters(recurse=False):
        if parameter.ndim > 1:  # variance 2 over the inputs, which keeps that of ReLU networks
            parameter.normal_(0, (2 / parameter[0].numel()) ** 0.5, generator=generator)
        else:
            parameter.normal_(0, 0.1, generator=generator)
            if name == "weight":  # of a norm
                parameter += 1
    if isinstance(module, nn.BatchNorm2d):
        module.running_mean.normal_(0, 0.1, generator=generator)
        module.running_var.uniform_(0.5, 1.5, generator=generator)


def cnn() -> nn.Module:
    """The network of PyTorch's tutorial on the NTK: three convolutions of 32 channels."""
    channels = (3, 32, 32, 32)
    layers = [layer for sizes in pairwise(channels) for layer in (nn.Conv2d(*sizes, 3), nn.ReLU())]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 26 * 26, 1))


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut without parameters (He et al. 2016, option A)."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.stride = channels // inputs
        self.more = channels - inputs
        self.conv1 = nn.Conv2d(inputs, channels, 3, self.stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        z = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        return torch.relu(z + functional.pad(shortcut, (0, 0, 0, 0, 0, self.more)))


def resnet20() -> nn.Module:
    """The ResNet-20 for CIFAR of He et al. (2016), with 16, 32 and 64 channels."""
    channels = (16, 16, 16, 16, 32, 32, 32, 64, 64, 64)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        *(ResidualBlock(*sizes) for sizes in pairwise(channels)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 1),
    )


class Attention(nn.Module):
    """Self-attention of linear layers and a softmax, which every peer can differentiate."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries, self.keys, self.values = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.queries, self.keys, self.values)
        )
        weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """Attention and two dense layers, each after a layer norm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.dense1, self.dense2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.dense2(functional.gelu(self.dense1(self.norm2(x))))


class VisionTransformer(nn.Module):
    """A transformer on 64 patches of 4 × 4 pixels, averaged before the last layer."""

    def __init__(self, *, width: int, heads: int, blocks: int) -> None:
        super().__init__()
        self.embedding = nn.Linear(48, width)
        self.positions = nn.Parameter(torch.empty(64, width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        patches = x.unflatten(3, (8, 4)).unflatten(2, (8, 4)).permute(0, 2, 4, 1, 3, 5)
        tokens = patches.flatten(3).flatten(1, 2)
        x = self.blocks(self.embedding(tokens) + self.positions)
        return self.head(self.norm(x).mean(1))


def vit() -> nn.Module:
    """A vision transformer of 4 blocks, 128 wide, with 4 heads."""
    return VisionTransformer(width=128, heads=4, blocks=4)


NETWORKS = {"cnn": cnn, "resnet20": resnet20, "vit": vit}
