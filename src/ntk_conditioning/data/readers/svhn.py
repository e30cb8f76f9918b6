"""SVHN's cropped digits, from MATLAB files of known checksum."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from ntk_conditioning.data.archives import ContentError, reading, require_unpackable
from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.files import ChecksumError, require_file, require_sha256


def read_svhn(
    x: Path, *, sha256: Collection[str], classes: Sequence[int] | None = None
) -> RawSamples:
    """Return the images (n, 32, 32, 3) and labels 0 to 9 of one ``*_32x32.mat`` file.

    An image has its rows first, then columns, then red, green and blue, so that it can be shown
    as it is. The file has images ``X`` (32, 32, 3, n) and labels ``y`` (n, 1), both bytes, and
    writes the digit 0 as label 10 (Netzer et al. 2011). ``classes`` keeps only these digits.

    Raises `ChecksumError` unless the file has one of the checksums ``sha256``, for SciPy takes a
    damaged tag at its word, and some flipped bits end the process with a segmentation fault;
    `FormatError` if SciPy cannot read it; `ContentError` if it does not hold these arrays.
    """
    from scipy.io import loadmat, whosmat

    require_file(x)
    if not sha256:
        raise ChecksumError(
            f"{x} is of unknown checksum, and MATLAB files are read only if theirs is known; "
            "give its sha256 (the command sha256sum prints it)"
        )
    require_sha256(x, sha256)
    with reading(x, "a MATLAB file of version 5 to 7"):
        variables = {name: (kind, shape) for name, shape, kind in whosmat(x)}
        n = variables.get("X", ("", (0,)))[1][-1]
        if not n or [variables.get(name) for name in "Xy"] != [
            ("uint8", (32, 32, 3, n)),
            ("uint8", (n, 1)),
        ]:
            raise ContentError(
                f"{x} holds {variables}, not X, uint8 of (32, 32, 3, n), and y, uint8 of (n, 1); "
                "take a file of the cropped digits, *_32x32.mat"
            )
        require_unpackable(x, math.prod(variables["X"][1]), packed=x.stat().st_size)
        arrays = loadmat(x, variable_names=["X", "y"])
    digits = arrays["y"][:, 0]
    if len(wrong := np.flatnonzero((digits < 1) | (digits > 10))):
        raise ContentError(
            f"{x}: y, row {wrong[0]} is {digits[wrong[0]]}; SVHN's labels are 1 to 10, 10 for 0"
        )
    images = np.ascontiguousarray(np.moveaxis(arrays["X"], 3, 0))
    return RawSamples(images, digits % 10, f"{x} (X)", f"{x} (y)").of_classes(classes)
