import torch
from torch import nn


def build(*, depth, width, activation, shape, outputs, generator):
    """Return convolutions with instance normalisation, whose mean over pixels is classified."""
    layers, channels = [], shape[0]  # colours
    for _ in range(depth):
        norm = nn.InstanceNorm2d(width, affine=True)
        layers += [nn.Conv2d(channels, width, 3, padding=1), norm, activation]
        channels = width
    mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    network = nn.Sequential(*layers, mean, nn.Linear(width, outputs))
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:  # weights, but no biases and scales
                scale = activation.gain / parameter[0].numel() ** 0.5
                parameter.normal_(generator=generator).mul_(scale)
    return network
