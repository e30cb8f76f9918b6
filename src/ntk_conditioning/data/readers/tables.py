"""Data of one's own: Parquet, CSV and NumPy archives, read, or only counted."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import math
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.archives import (
    ContentError,
    FormatError,
    load_arrays,
    require_unpackable,
    unpacked,
)
from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.errors import one_line
from ntk_conditioning.files import require_file

if TYPE_CHECKING:
    import pyarrow

_Names = Sequence[str] | None
_Place = Callable[[int], str]  # how an error calls a row
IF_PRESENT = "y, if there is one"  # the labels of `read_npz` when nothing is said
#: Columns of a Parquet or CSV file: pyarrow takes 16 kB for each, however short.
MOST_COLUMNS = 30_000
# What pandas writes for a row index, in Parquet and in CSV.
_INDEX_COLUMN = re.compile(r"(__index_level_\d+__|Unnamed: \d+|)")


def read_npz(x: Path, *, features: str = "x", labels: str | None = IF_PRESENT) -> RawSamples:
    """Return the named arrays of a NumPy archive; ``labels=None`` reads none."""
    if labels == IF_PRESENT:
        arrays, labels = load_arrays(x, required=[features], optional=["y"]), "y"
    else:
        arrays = load_arrays(x, required=[features, labels] if labels else [features])
    y = arrays.get(labels) if labels else None
    return RawSamples(arrays[features], y, f"{x} ({features})", f"{x} ({labels})")


def read_parquet(x: Path, *, labels: str | None, features: _Names = None) -> RawSamples:
    """Return columns of a Parquet file; ``features=None`` takes all but ``labels``.

    Raises `MissingFileError`, `FormatError` if the file is no Parquet file or is damaged, and
    `ContentError` if a column is not there, is not numeric or has missing values.
    """
    import pyarrow
    import pyarrow.parquet

    require_file(x)
    try:
        # Not read_table: that would take columns from folder names such as `year=2020` as well.
        with pyarrow.parquet.ParquetFile(x, page_checksum_verification=True) as file:
            _require_columns(x, file.metadata.num_columns)
            values = file.metadata.num_rows * file.metadata.num_columns
            require_unpackable(x, 8 * values, packed=x.stat().st_size)
            table = file.read()
        table.validate(full=True)  # texts are decoded only later
        names = table.column_names
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{x} cannot be read as Parquet: {one_line(error)}") from None
    return _from_table(table, names, x, labels, features)


def read_csv(x: Path, *, labels: str | None, features: _Names = None) -> RawSamples:
    """Return columns of a CSV file with a header line, plain or packed with gzip.

    Raises as `read_parquet`, and `ContentError` if there is no header.
    """
    import pyarrow
    import pyarrow.csv

    data = unpacked(x)
    _require_columns(x, _columns_of(data))
    try:
        # a process that ends beside arrow's threads is aborted now and then
        one_thread = pyarrow.csv.ReadOptions(use_threads=False)
        # NA is a gap in texts as in numbers; "NA" is a text
        gaps = pyarrow.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        how = {"read_options": one_thread, "convert_options": gaps}
        table = pyarrow.csv.read_csv(pyarrow.BufferReader(data), **how)
        names = table.column_names  # decoded only here
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = _not_a_csv(data) or one_line(error)
        raise FormatError(f"{x} cannot be read as CSV: {problem}") from None
    if all(map(_is_number, names)):
        raise ContentError(f"{x} starts with numbers; its first line must name the columns")
    try:
        samples = _from_table(table, names, x, labels, features, partial(_csv_line, x))
        if samples.y is not None and samples.y.dtype.kind != "U":
            how["convert_options"] = pyarrow.csv.ConvertOptions(
                include_columns=[labels], column_types={labels: pyarrow.string()}
            )
            texts = pyarrow.csv.read_csv(pyarrow.BufferReader(data), **how).columns[0]
            _require_one_spelling(x, labels, table.columns[names.index(labels)], texts)
        return samples
    except ContentError:
        if problem := _not_a_csv(data):
            raise FormatError(f"{x} cannot be read as CSV: {problem}") from None
        raise


def _require_one_spelling(
    path: Path, name: str | None, values: pyarrow.ChunkedArray, texts: pyarrow.ChunkedArray
) -> None:
    """Raise `ContentError` if two texts were read as one value, such as 01 and 1."""
    import pyarrow

    table = pyarrow.table({"value": values, "text": texts})
    spellings = table.group_by(["value", "text"], use_threads=False).aggregate([])
    kinds = sorted((row["value"], row["text"]) for row in spellings.to_pylist())
    for (value, one), (other_value, other) in itertools.pairwise(kinds):
        if value == other_value:
            raise ContentError(
                f"{path}: column {name!r} has {one!r} and {other!r}, which are read as one label; "
                "spell them alike"
            )


def _columns_of(data: bytearray) -> int:
    """Return how many columns a CSV file's first line has at most: its names may have commas."""
    return 1 + data[: data.find(b"\n") + 1 or None].count(b",")


def _require_columns(path: Path, count: int) -> None:
    if count > MOST_COLUMNS:
        raise ContentError(
            f"{path} has {count:,} columns, more than the {MOST_COLUMNS:,} that tables may have; "
            "save the samples as an array in a NumPy archive (.npz)"
        )


def _not_a_csv(data: bytearray) -> str:
    """Return why a text is no CSV in UTF-8 with commas; nothing if it may be one."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "it is in UTF-16; save it in UTF-8"
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        return f"line {line} has the byte 0x{byte:02x}, which is not UTF-8; save it in UTF-8"
    rows = _csv_rows(data)
    _, header = next(rows, (0, [""]))
    if len(header) == 1 and (others := [each for each in ";\t|" if each in header[0]]):
        return f"its columns are separated by {others[0]!r}; save it with commas"
    ragged = ((line, len(row)) for line, row in rows if len(row) != len(header))
    for line, columns in itertools.islice(ragged, 1):
        return f"line {line} has {columns} columns, and the header {len(header)}"
    return ""


def _csv_rows(data: bytearray) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with the lines that they are, counted from 1; pyarrow skips empty lines, too."""
    reader = csv.reader(io.StringIO(data.decode(errors="replace"), newline=""))
    return ((reader.line_num, row) for row in reader if row)


def _csv_line(path: Path, row: int) -> str:
    """Return how an error calls a row of a file, counted from 0 and without the header."""
    rows = itertools.islice(_csv_rows(unpacked(path)), row + 1, None)
    return f"line {next(rows, (row + 2, []))[0]}"


def npz_shape(x: Path, *, features: str = "x", **_options: Any) -> tuple[int, int]:
    """Return samples and features of a NumPy archive, from its array's header."""
    with zipfile.ZipFile(x) as archive, archive.open(f"{features}.npy") as stream:
        np.lib.format.read_magic(stream)
        n, *sample = np.lib.format.read_array_header_1_0(stream)[0]
    return n, math.prod(sample)


def table_shape(x: Path, *, labels: str | None, features: _Names = None) -> tuple[int, int]:
    """Return samples and features of a Parquet file, from its end, or CSV, from one column."""
    import pyarrow.parquet
    from pyarrow import csv as arrow_csv

    with x.open("rb") as stream:
        is_parquet = stream.read(4) == b"PAR1"
    if is_parquet:
        known = pyarrow.parquet.read_metadata(x)
        rows, columns = known.num_rows, known.num_columns
        _require_columns(x, columns)
    else:
        content = unpacked(x)
        _require_columns(x, _columns_of(content))
        names = arrow_csv.open_csv(pyarrow.BufferReader(content)).schema.names
        first = arrow_csv.ConvertOptions(include_columns=names[:1])
        how = {"convert_options": first, "read_options": arrow_csv.ReadOptions(use_threads=False)}
        rows = arrow_csv.read_csv(pyarrow.BufferReader(content), **how).num_rows
        columns = len(names)
    return rows, len(features) if features else columns - (labels is not None)


def _from_table(
    table: pyarrow.Table,
    names: list[str],
    path: Path,
    labels: str | None,
    features: _Names,
    place: _Place = "row {}".format,
) -> RawSamples:
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise ContentError(f"{path} has several columns named {_quoted(repeated)}; rename them")
    if features is None:
        features = [name for name in names if name != labels]
        if index := [name for name in features if _INDEX_COLUMN.fullmatch(name)]:
            raise ContentError(
                f"{path} has a row index, column {_quoted(index)}; list the feature columns under "
                "options, features, or save the table without index"
            )
    wanted = [*features, *([] if labels is None else [labels])]
    # by name from here on: a table of pyarrow looks at all its columns for one
    columns = dict(zip(names, table.columns, strict=True))
    if not table.num_rows:
        raise ContentError(f"{path} has no samples, only columns")
    if missing := [name for name in wanted if name not in columns]:
        raise ContentError(f"{path} has no column {_quoted(missing)}, only {_quoted(names)}")
    if labels in features:
        raise ContentError(f"{path}: column {labels!r} is both labels and a feature")
    if not features:
        raise ContentError(f"{path} has no feature column besides {labels!r}")
    x = np.column_stack([_array(columns[name], name, path, place) for name in features])
    y = None if labels is None else _array(columns[labels], labels, path, place, text=True)
    return RawSamples(x, y, str(path), f"{path} (column {labels!r})", tuple(features), place)


def _array(
    column: pyarrow.ChunkedArray, name: str, path: Path, place: _Place, *, text: bool = False
) -> NDArray[Any]:
    """Return a column of numbers, or of strings where ``text`` is allowed, without gaps."""
    import pyarrow
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_number = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    if is_text and not text:
        texts = ((row, str(each)) for row, each in enumerate(column) if not _is_number(str(each)))
        row, first = next(texts, (0, str(column[0])))
        raise ContentError(
            f"{path}: {place(row)}, column {name!r} is {first[:40]!r}, not a number; encode "
            "texts as numbers, make it the labels, or list numeric columns under options, features"
        )
    if not (is_number or is_text):
        raise ContentError(
            f"{path}: column {name!r} is {column.type}, not numeric; encode it as numbers, or "
            "list the numeric columns under options, features"
        )
    missing = np.asarray(column.is_null().to_numpy())
    if is_text:  # pyarrow reads nothing as an empty text, in CSV
        labels = np.array(column.to_pylist(), dtype=object)
        missing |= labels == ""
    if missing.any():
        raise ContentError(
            f"{path}: column {name!r} has {missing.sum()} missing values, the first in "
            f"{place(int(missing.argmax()))}; fill them or remove the rows"
        )
    if is_text:
        kinds = sorted({*labels}, key=lambda text: (text.strip(), text))
        if alike := [(a, b) for a, b in itertools.pairwise(kinds) if a.strip() == b.strip()]:
            raise ContentError(
                f"{path}: column {name!r} has {alike[0][0]!r} and {alike[0][1]!r}, which differ in "
                "spaces alone; make them one"
            )
        return np.asarray(labels, dtype=np.str_)
    plain = column.cast(pyarrow.uint8() if types.is_boolean(kind) else kind)
    return np.asarray(plain.to_numpy())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _quoted(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown
