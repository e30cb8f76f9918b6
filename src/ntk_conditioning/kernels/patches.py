"""Patches of images for `infinite_convolutional`: sums, unit vectors, and their distances."""

from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import cdist

from ntk_conditioning.networks.activations import Array


def square_distances(rows: Array, columns: Array) -> Array:
    """Return |a - b|² (group, row, column) from the differences themselves."""
    pairs = zip(rows, columns, strict=True)
    return np.stack([cdist(left, right, "sqeuclidean") for left, right in pairs])


def unit_patches(grid: Array, taps: int) -> Array:
    """Return patches of images (n, height, width, c) as unit vectors (n, P, k² c); zero stays."""
    reach = taps // 2
    padded = np.pad(grid, ((0, 0), (reach, reach), (reach, reach), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (taps, taps), (1, 2))
    vectors = windows.reshape(len(grid), grid.shape[1] * grid.shape[2], -1)
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0))


def sum_of_patch(values: Array, axes: Sequence[tuple[int, ...]], taps: int) -> Array:
    """Return sums over ``taps`` neighbours along each group of axes, which move together.

    Zeros are outside. Nothing is subtracted, so that small values keep their digits.
    """
    for group in axes:
        total, size = values.copy(), values.shape[group[0]]
        for offset in range(1, min(taps // 2, size - 1) + 1):
            ahead, behind = [slice(None)] * values.ndim, [slice(None)] * values.ndim
            for axis in group:
                ahead[axis], behind[axis] = slice(offset, None), slice(None, size - offset)
            total[tuple(behind)] += values[tuple(ahead)]
            total[tuple(ahead)] += values[tuple(behind)]
        values = total
    return values
