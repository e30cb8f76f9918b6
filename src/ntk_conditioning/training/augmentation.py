"""Augmentation of images: random crops of the padded image, and mirror images."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ntk_conditioning.seeds import generator

#: Zeros around an image before it is cropped to its own size again (He et al. 2016, section 4.2).
PADDING = 4


def draw_moves(seed: int, epoch: int, n: int) -> NDArray[np.int64]:
    """Return the moves (n, 3) of a seed's samples in an epoch: rows, columns, and 1 to mirror.

    They follow from seed and epoch alone, so that an epoch can be taken up at any step.
    """
    rng = generator(seed, "augmentation", epoch)
    crops = rng.integers(0, 2 * PADDING + 1, size=(n, 2))
    return np.concatenate([crops, rng.integers(0, 2, size=(n, 1))], axis=1)


def crop_flip(images: Tensor, moves: Tensor) -> Tensor:
    """Return images (n, colours, height, width) moved as `draw_moves` says.

    >>> image = torch.arange(4.0).reshape(1, 1, 2, 2)
    >>> crop_flip(image, torch.tensor([[PADDING, PADDING, 1]])).tolist()
    [[[[1.0, 0.0], [3.0, 2.0]]]]
    >>> crop_flip(image, torch.tensor([[PADDING + 1, PADDING, 0]])).tolist()
    [[[[2.0, 3.0], [0.0, 0.0]]]]
    """
    height, width = images.shape[-2:]
    padded = functional.pad(images, (PADDING,) * 4)
    top, left, mirrored = moves.unbind(1)
    rows = top[:, None] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(len(images), -1)
    columns = left[:, None] + torch.where(mirrored[:, None] == 1, width - 1 - columns, columns)
    number = torch.arange(len(images), device=images.device)[:, None, None]
    # Indices on both sides of the colours' axis put it last.
    return padded[number, :, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)
