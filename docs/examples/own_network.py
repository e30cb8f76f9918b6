import torch
from torch import nn


def build(*, depth, width, activation, shape, outputs, generator):
    """Return convolutions with group normalisation, and a classifier of means over quarters."""
    layers, channels = [], shape[0]  # colours
    for _ in range(depth):
        layers.append(nn.Conv2d(channels, width, 3, padding=1, bias=False))
        layers += [nn.GroupNorm(4, width), activation]
        channels = width
    layers += [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, outputs, bias=False)]
    network = nn.Sequential(*layers)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.ndim > 1:  # scales and shifts stay as torch sets them
                scale = activation.gain / weight[0].numel() ** 0.5
                weight.normal_(generator=generator).mul_(scale)
    return network
