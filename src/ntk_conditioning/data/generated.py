"""Samples that need no file: drawn, or shipped with scikit-learn."""

from importlib.metadata import distribution
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
    return Path(str(distribution("scikit-learn").locate_file(f"sklearn/datasets/{file}")))


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
    photographs = np.stack([np.asarray(Image.open(_shipped(f"images/{n}"))) for n in names])
    windows = np.lib.stride_tricks.sliding_window_view(photographs, (size, size), axis=(1, 2))
    grid = windows[:, ::stride, ::stride]  # (photographs, rows, columns, colour, size, size)
    positions, shares = grid.shape[1] * grid.shape[2], (samples - samples // 2, samples // 2)
    if shares[0] > positions:
        raise UserError(
            f"{shares[0]} patches of {size} pixels at stride {stride} do not fit into a photograph "
            f"of {photographs.shape[1]} × {photographs.shape[2]} pixels, {positions} do; "
            "lower samples or stride"
        )
    labels = np.repeat([0, 1], shares)
    place = np.concatenate([np.arange(share) * positions // share for share in shares])
    patches = grid[labels, *np.divmod(place, grid.shape[2])]
    source = "the photographs' patches"
    return RawSamples(np.moveaxis(patches, 1, -1), labels, source, source)
