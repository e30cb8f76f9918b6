"""SVHN's cropped digits, from MATLAB files of known checksum."""

import math
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from ntk_conditioning.data.archives import ContentError, FormatError, require_unpackable
from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import ChecksumError, require_file, require_sha256

_UNREADABLE = (NotImplementedError, TypeError, ValueError, LookupError, OSError, zlib.error)


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
    from scipy.io.matlab import MatReadError

    require_file(x)
    if not sha256:
        raise ChecksumError(
            f"{x} is of unknown checksum, and MATLAB files are read only if theirs is known; "
            "give its sha256 (the command sha256sum prints it)"
        )
    require_sha256(x, sha256)
    try:
        _require_digits(x, {name: (kind, shape) for name, shape, kind in whosmat(x)})
        arrays = loadmat(x, variable_names=["X", "y"])
    except UserError:
        raise
    except (MatReadError, *_UNREADABLE) as error:
        raise FormatError(
            f"{x} cannot be read as a MATLAB file: {one_line(error)}; save it with -v7"
        ) from None
    digits = arrays["y"][:, 0]
    if len(wrong := np.flatnonzero((digits < 1) | (digits > 10))):
        raise ContentError(
            f"{x}: variable y, row {wrong[0]} is {digits[wrong[0]]}; SVHN's labels are 1 to 10, 10 "
            "for the digit 0"
        )
    images = np.ascontiguousarray(np.moveaxis(arrays["X"], 3, 0))
    return RawSamples(images, digits % 10, f"{x} (X)", f"{x} (y)").of_classes(classes)


def _require_digits(x: Path, variables: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    """Compare kinds and shapes as the file declares them, before any value is read."""
    for name in ("X", "y"):
        if name not in variables:
            known = ", ".join(variables) or "none"
            raise ContentError(f"{x} has no variable {name}; its variables: {known}")
        kind, shape = variables[name]
        expected = (32, 32, 3, shape[-1]) if name == "X" else (variables["X"][1][-1], 1)
        if kind != "uint8" or shape != expected or 0 in shape:
            raise ContentError(
                f"{x}: variable {name} is {kind} of {_text(shape)}, not uint8 of "
                f"{_text(expected) if name == 'y' else '32 × 32 × 3 × n'}; take a file of the "
                "cropped digits, *_32x32.mat"
            )
        require_unpackable(x, math.prod(shape), packed=x.stat().st_size)


def _text(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
