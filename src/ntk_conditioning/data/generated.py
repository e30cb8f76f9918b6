"""Samples that need no file: drawn, or shipped with scikit-learn."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.errors import UserError
from ntk_conditioning.seeds import generator


def draw_gaussian(*, n: int, d: int, seed: int) -> RawSamples:
    """Return ``n`` independent samples of the standard normal distribution in ``d`` dimensions."""
    x = generator(seed, "data").standard_normal((n, d))
    return RawSamples(x, None, "the Gaussian draw", "")


def _shipped(file: str) -> Path:
    """Return a data file of scikit-learn, without the seconds that importing it takes."""
    package = find_spec("sklearn")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "datasets" / file


def load_digits() -> RawSamples:
    """Return scikit-learn's 1797 digits of 8 × 8 pixels with values 0 to 16."""
    table = np.loadtxt(_shipped("data/digits.csv.gz"), delimiter=",")
    source = "scikit-learn's digits"
    return RawSamples(table[:, :-1], table[:, -1].astype(np.int64), source, source)


def cut_patches(*, size: int, stride: int, samples: int) -> RawSamples:
    """Return square patches of scikit-learn's two photographs, labelled by photograph.

    Of the grid positions in reading order, ``stride`` pixels apart, each photograph gives half
    the samples (the first one more if odd), evenly spread: position ``floor(i p / k)`` for the
    i-th of k out of p. Raises `UserError` if a photograph has fewer positions than that.
    """
    names = ("china.jpg", "flower.jpg")
    photographs = [np.asarray(Image.open(_shipped(f"images/{name}"))) for name in names]
    shares = (samples - samples // 2, samples // 2)
    patches, labels = [], []
    for label, (photograph, share) in enumerate(zip(photographs, shares, strict=True)):
        windows = np.lib.stride_tricks.sliding_window_view(photograph, (size, size), axis=(0, 1))
        grid = windows[::stride, ::stride]  # (rows, columns, colour, size, size)
        positions = grid.shape[0] * grid.shape[1]
        if share > positions:
            raise UserError(
                f"{share} patches of {size} pixels at stride {stride} do not fit into a photograph "
                f"of {photograph.shape[0]} × {photograph.shape[1]} pixels, {positions} do; "
                "lower samples or stride"
            )
        row, column = np.divmod(np.arange(share) * positions // share, grid.shape[1])
        patches.append(np.moveaxis(grid[row, column], 1, -1))
        labels.append(np.full(share, label))
    source = "the photographs' patches"
    return RawSamples(np.concatenate(patches), np.concatenate(labels), source, source)
