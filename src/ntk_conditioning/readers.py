"""Samples and labels as their source has them: drawn, shipped with a library, or from a file.

Readers check that a source is what it says it is; what every dataset must fulfil is checked by
`Samples`, for all readers alike. Libraries that only one reader needs are imported there.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.archives import ContentError, FormatError, load_arrays
from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import require_file
from ntk_conditioning.samples import Samples
from ntk_conditioning.seeds import generator

if TYPE_CHECKING:
    import pyarrow

_REFETCH = "it is damaged or another file: fetch it again"
DIGITS = 1797
IF_PRESENT = "y, if there is one"  # the labels of `read_npz` when nothing is said


class IdxError(FormatError):
    """A file breaks the IDX format."""


class PatchError(UserError):
    """The photographs do not have that many patches."""


def draw_gaussian(*, n: int, d: int, seed: int) -> Samples:
    """Return ``n`` independent samples of the standard normal distribution in ``d`` dimensions."""
    x = generator(seed, "data").standard_normal((n, d))
    return Samples(x, None, "the Gaussian draw", "")


def load_digits() -> Samples:
    """Return scikit-learn's `DIGITS` digits of 8 × 8 pixels with values 0 to 16."""
    from sklearn.datasets import load_digits as load

    x, y = load(return_X_y=True)
    return Samples(x, y, "scikit-learn's digits", "scikit-learn's digits")


def cut_patches(*, size: int, stride: int, samples: int) -> Samples:
    """Return square patches of scikit-learn's two photographs, labelled by photograph.

    Of the grid positions in reading order, ``stride`` pixels apart, each photograph gives half
    the samples (the first one more if odd), evenly spread: position ``floor(i p / k)`` for the
    i-th of k out of p.

    Raises:
        PatchError: if a photograph has fewer positions than that.
    """
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images().images
    shares = (samples - samples // 2, samples // 2)
    patches, labels = [], []
    for label, (photograph, share) in enumerate(zip(photographs, shares, strict=True)):
        windows = np.lib.stride_tricks.sliding_window_view(photograph, (size, size), axis=(0, 1))
        grid = windows[::stride, ::stride]  # (rows, columns, colour, size, size)
        positions = grid.shape[0] * grid.shape[1]
        if share > positions:
            raise PatchError(
                f"{share} patches of {size} pixels at stride {stride} do not fit into a photograph "
                f"of {photograph.shape[0]} × {photograph.shape[1]} pixels, {positions} do; "
                "lower samples or stride"
            )
        row, column = np.divmod(np.arange(share) * positions // share, grid.shape[1])
        patches.append(np.moveaxis(grid[row, column], 1, -1))
        labels.append(np.full(share, label))
    source = "the photographs' patches"
    return Samples(np.concatenate(patches), np.concatenate(labels), source, source)


def read_idx(x: Path, y: Path | None) -> Samples:
    """Return the arrays of an IDX file of features and, if given, one of labels.

    Raises:
        IdxError: if a file breaks the format, see `read_idx_array`.
    """
    labels = None if y is None else read_idx_array(y)
    return Samples(read_idx_array(x), labels, str(x), str(y))


_IDX_TYPES: Mapping[int, str] = {
    0x08: ">u1",
    0x09: ">i1",
    0x0B: ">i2",
    0x0C: ">i4",
    0x0D: ">f4",
    0x0E: ">f8",
}
_IDX_MAX_DIMENSIONS = 32  # what every NumPy can shape; MNIST has 3


def read_idx_array(path: Path) -> NDArray[Any]:
    """Return the array of one IDX file, plain or packed with gzip.

    The format (Y. LeCun, the MNIST page): two zero bytes, a byte for the element type, a byte for
    the number of dimensions, each dimension as a big-endian 32-bit integer, then the elements,
    big-endian, the last dimension fastest. Nothing may be missing and nothing may follow.

    Raises:
        MissingFileError: if there is no such file.
        IdxError: with the byte position (of the unpacked bytes) where the file goes wrong.
    """

    def refuse(problem: str) -> NoReturn:
        raise IdxError(f"{path}: {problem}; {_REFETCH}")

    data = _unpacked(path)
    if len(data) < 4:
        refuse(f"ends at byte {len(data)}, inside the 4-byte magic number")
    if data[0] or data[1]:
        refuse(f"bytes 0 and 1 are 0x{data[0]:02x} 0x{data[1]:02x}, not zero as in an IDX file")
    if data[2] not in _IDX_TYPES:
        refuse(f"byte 2 is 0x{data[2]:02x}, which is no IDX element type")
    dimensions = data[3]
    if not 1 <= dimensions <= _IDX_MAX_DIMENSIONS:
        refuse(f"byte 3 says {dimensions} dimensions, not 1 to {_IDX_MAX_DIMENSIONS}")
    start = 4 + 4 * dimensions
    if len(data) < start:
        refuse(f"ends at byte {len(data)}, inside the {start}-byte header")
    shape = [int(size) for size in np.frombuffer(data, ">u4", count=dimensions, offset=4)]
    if 0 in shape:
        axis = shape.index(0)
        refuse(f"bytes {4 + 4 * axis} to {7 + 4 * axis} say that dimension {axis} is 0")
    dtype = np.dtype(_IDX_TYPES[data[2]])
    end = start + math.prod(shape) * dtype.itemsize
    extent = f"the header's {' × '.join(map(str, shape))} elements end at byte {end}"
    if len(data) < end:
        refuse(f"ends at byte {len(data)}, but {extent}")
    if len(data) > end:
        refuse(f"{len(data) - end} bytes follow byte {end}, but {extent}")
    array = np.frombuffer(data, dtype, offset=start).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


def read_npz(x: Path, *, features: str = "x", labels: str | None = IF_PRESENT) -> Samples:
    """Return the named arrays of a NumPy archive; ``labels=None`` reads none.

    Raises:
        UserError: as `load_arrays`.
    """
    if labels == IF_PRESENT:
        arrays = load_arrays(x, required=[features], optional=["y"])
        labels = "y"
    else:
        arrays = load_arrays(x, required=[features] if labels is None else [features, labels])
    y = None if labels is None else arrays.get(labels)
    return Samples(arrays[features], y, f"{x} ({features})", f"{x} ({labels})")


def read_parquet(x: Path, *, labels: str | None, features: Sequence[str] | None = None) -> Samples:
    """Return columns of a Parquet file; ``features=None`` takes all but ``labels``.

    Raises:
        MissingFileError: if there is no such file.
        FormatError: if the file is no Parquet file or is damaged.
        ContentError: if a column is not there, is not numeric or has missing values.
    """
    import pyarrow
    import pyarrow.parquet

    require_file(x)
    try:
        # Not read_table: that would take columns from folder names such as `year=2020` as well.
        with pyarrow.parquet.ParquetFile(x) as file:
            table = file.read()
        table.validate(full=True)  # texts are decoded only later
        names = table.column_names
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{x} cannot be read as Parquet: {one_line(error)}") from None
    return _from_table(table, names, x, labels, features)


def read_csv(x: Path, *, labels: str | None, features: Sequence[str] | None = None) -> Samples:
    """Return columns of a CSV file with a header line, plain or packed with gzip.

    Raises:
        MissingFileError: if there is no such file.
        FormatError: if the file cannot be parsed.
        ContentError: if the header is missing, or a column is not there, is not numeric or has
            missing values.
    """
    import pyarrow
    import pyarrow.csv

    try:
        table = pyarrow.csv.read_csv(pyarrow.BufferReader(_unpacked(x)))
        names = table.column_names  # decoded only here
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{x} cannot be read as CSV: {one_line(error)}") from None
    if all(map(_is_number, names)):
        raise ContentError(f"{x} starts with numbers; its first line must name the columns")
    return _from_table(table, names, x, labels, features)


# What pandas writes for a row index, in Parquet and in CSV.
_INDEX_COLUMN = re.compile(r"(__index_level_\d+__|Unnamed: \d+|)")


def _from_table(
    table: pyarrow.Table,
    names: list[str],
    path: Path,
    labels: str | None,
    features: Sequence[str] | None,
) -> Samples:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ContentError(f"{path} has several columns named {_quoted(repeated)}; rename them")
    if features is None:
        features = [name for name in names if name != labels]
        index = [name for name in features if _INDEX_COLUMN.fullmatch(name)]
        if index:
            raise ContentError(
                f"{path} has a row index, column {_quoted(index)}; list the feature columns under "
                "options, features, or save the table without index"
            )
    wanted = [*features, *([] if labels is None else [labels])]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ContentError(f"{path} has no column {_quoted(missing)}, only {_quoted(names)}")
    if labels in features:
        raise ContentError(f"{path}: column {labels!r} is both labels and a feature")
    if not features:
        raise ContentError(f"{path} has no feature column besides {labels!r}")
    x = np.column_stack([_array(table.column(name), name, path) for name in features])
    y = None if labels is None else _array(table.column(labels), labels, path, text=True)
    return Samples(x, y, str(path), f"{path} (column {labels!r})", columns=tuple(features))


def _array(
    column: pyarrow.ChunkedArray, name: str, path: Path, *, text: bool = False
) -> NDArray[Any]:
    """Return a column of numbers, or of strings where ``text`` is allowed, without gaps."""
    import pyarrow
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_number = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    if not (is_number or (text and is_text)):
        raise ContentError(
            f"{path}: column {name!r} is {column.type}, not numeric; encode it as numbers, or "
            "list the numeric columns under options, features"
        )
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise ContentError(
            f"{path}: column {name!r} has {column.null_count} missing values, the first in row "
            f"{row}; fill them or remove the rows"
        )
    if is_text:
        return np.array(column.to_pylist(), dtype=np.str_)
    plain = column.cast(pyarrow.uint8() if types.is_boolean(kind) else kind)
    array: NDArray[Any] = plain.to_numpy()
    return array


def _unpacked(path: Path) -> bytes:
    """Return a file's bytes, unpacked if they are gzip's by their first two bytes."""
    require_file(path)
    data = path.read_bytes()
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"{path}: damaged gzip data ({error}); {_REFETCH}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _quoted(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown


GENERATED: Mapping[str, Callable[..., Samples]] = {
    "gaussian": draw_gaussian,
    "sklearn_digits": load_digits,
    "sklearn_patches": cut_patches,
}
"""Readers that need no file."""

FROM_ONE_FILE: Mapping[str, Callable[..., Samples]] = {
    "npz": read_npz,
    "parquet": read_parquet,
    "csv": read_csv,
}
"""Readers of one file with features and labels."""

FROM_TWO_FILES: Mapping[str, Callable[..., Samples]] = {"idx": read_idx}
"""Readers of one file with features and another one with labels."""
