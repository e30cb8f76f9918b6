import torch
from torch import nn


def build(*, depth, width, activation, shape, outputs, generator):
    """Convolutions with instance normalisation, and a classifier of their means over pixels."""
    layers, channels = [], shape[0]  # colours
    for _ in range(depth):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.InstanceNorm2d(width), activation]
        channels = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, outputs)]
    network = nn.Sequential(*layers)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            else:
                scale = activation.gain / parameter[0].numel() ** 0.5
                parameter.normal_(generator=generator).mul_(scale)
    return network
