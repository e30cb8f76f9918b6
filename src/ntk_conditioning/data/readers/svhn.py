"""SVHN's cropped digits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ntk_conditioning.data.archives import ContentError
from ntk_conditioning.data.readers.classes import keep_classes
from ntk_conditioning.data.readers.matlab import read_byte_arrays
from ntk_conditioning.data.samples import Samples

_SIDE, _COLOURS = 32, 3
_AT_A_TIME = 1024


def read_svhn(x: Path, *, classes: Sequence[int] | None = None) -> Samples:
    """Return the images (n, 32, 32, 3) and labels 0 to 9 of one ``*_32x32.mat`` file.

    An image has its rows first, then columns, then red, green and blue, so that it can be shown
    as it is. The file has images ``X`` (32, 32, 3, n) and labels ``y`` (n, 1), both bytes, and
    writes the digit 0 as label 10 (Netzer et al. 2011). ``classes`` keeps only these digits.

    Raises:
        MissingFileError: if there is no such file.
        MatError: if the file is damaged or of another format.
        ContentError: if it does not hold these arrays, or a label is not 1 to 10.
    """
    arrays = read_byte_arrays(x, ("X", "y"))
    images, labels = arrays["X"], arrays["y"]
    if images.ndim != 4 or images.shape[:3] != (_SIDE, _SIDE, _COLOURS):
        raise ContentError(
            f"{x}: variable X is {_text(images.shape)}, not 32 × 32 × 3 × n; take a file of the "
            "cropped digits, *_32x32.mat"
        )
    n = images.shape[3]
    if labels.shape != (n, 1):
        raise ContentError(f"{x}: variable y is {_text(labels.shape)}, but X has {n} images")
    digits = labels[:, 0]
    wrong = np.flatnonzero((digits < 1) | (digits > 10))
    if len(wrong):
        row = wrong[0]
        raise ContentError(
            f"{x}: variable y, row {row} is {digits[row]}; SVHN's labels are 1 to 10, 10 for the "
            "digit 0"
        )
    # In place, some images at a time: the whole file is 225 MB. In memory the file has columns
    # before rows, and colours before columns.
    columns_first = images.T
    rows_first = columns_first.reshape(n, _SIDE, _SIDE, _COLOURS)
    for start in range(0, n, _AT_A_TIME):
        some = slice(start, start + _AT_A_TIME)
        rows_first[some] = columns_first[some].transpose(0, 3, 2, 1).copy()
    samples = Samples(rows_first, digits % 10, f"{x} (X)", f"{x} (y)")
    return keep_classes(samples, classes)


def _text(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
