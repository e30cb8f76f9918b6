"""A user's data: Parquet, CSV and NumPy archives, read, or only counted."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ntk_conditioning.data.archives import (
    ContentError,
    FormatError,
    load_arrays,
    read_unpacked,
    reading,
    require_unpackable,
)
from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.files import require_file

if TYPE_CHECKING:
    import pandas as pd

_Names = Sequence[str] | None
_Place = Callable[[int], str]  # how an error calls a row
# What pandas writes for a row index, in Parquet and in CSV.
_INDEX_COLUMN = re.compile(r"__index_level_\d+__|Unnamed: \d+")


def read_npz(x: Path, *, features: str = "x", labels: str | None = "y if there") -> RawSamples:
    """Return the named arrays of a NumPy archive; ``labels=None`` reads none, by default y."""
    required, optional = [features], []
    if labels == "y if there":
        labels, optional = "y", ["y"]
    elif labels is not None:
        required.append(labels)
    arrays = load_arrays(x, required=required, optional=optional)
    y = None if labels is None else arrays.get(labels)
    return RawSamples(arrays[features], y, f"{x} ({features})", f"{x} ({labels})")


def read_parquet(x: Path, *, labels: str | None, features: _Names = None) -> RawSamples:
    """Return columns of a Parquet file; ``features=None`` takes all but ``labels``.

    Raises `MissingFileError`, `FormatError` if the file is no Parquet file or is damaged, and
    `ContentError` if a column is not there, is not numeric or has missing values.
    """
    import pyarrow as pa
    import pyarrow.parquet

    require_file(x)
    # Not pandas.read_parquet: that would take columns from folder names such as `year=2020`.
    with (
        reading(x, "Parquet"),
        pyarrow.parquet.ParquetFile(x, page_checksum_verification=True) as file,
    ):
        values = file.metadata.num_rows * file.metadata.num_columns
        require_unpackable(x, 8 * values, packed=x.stat().st_size)
        table = file.read()
        table.validate(full=True)  # texts are decoded only later
        _require_distinct(x, table.column_names)
        for field in table.schema:
            if field.name in (features or table.column_names) and pa.types.is_nested(field.type):
                raise ContentError(f"{x}: column {field.name!r} holds {field.type}, not numbers")
        frame = table.to_pandas(ignore_metadata=True)
    return _from_table(frame, x, labels, features, "row {}".format)


def read_csv(x: Path, *, labels: str | None, features: _Names = None) -> RawSamples:
    """Return columns of a CSV file with a header line, plain or packed with gzip.

    Separators are the one of ``, ; | tab`` that the header has most; beside others than commas,
    numbers may have decimal commas. The text is UTF-8, or UTF-16 with a byte order mark. Raises as
    `read_parquet`, and `ContentError` if there is no header.
    """
    import pandas as pd

    text, how = _csv_text(x)
    with reading(x, "CSV"), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
        # pandas renames a column of a name that it has read already
        header: Any = {"header": None, "nrows": 1, "dtype": str, "keep_default_na": False}
        names = pd.read_csv(io.StringIO(text), **how, **header).iloc[0]
        table = pd.read_csv(io.StringIO(text), **how, index_col=False, low_memory=False)
    if pd.to_numeric(table.columns.to_series(), errors="coerce").notna().all():
        raise ContentError(f"{x} starts with numbers; its first line must name the columns")
    _require_distinct(x, names.tolist())
    if labels in table and pd.api.types.is_string_dtype(table[labels]):
        table[labels] = table[labels].str.strip()
    elif labels in table and pd.api.types.is_numeric_dtype(table[labels]):
        column = table.columns.get_loc(labels)
        texts = pd.read_csv(io.StringIO(text), **how, index_col=False, usecols=[column], dtype=str)
        spellings = pd.DataFrame({"label": table[labels], "text": texts.iloc[:, 0]})
        spellings = spellings.dropna().drop_duplicates().sort_values(["label", "text"])
        if len(alike := spellings[spellings["label"].duplicated(keep=False)]["text"]):
            raise ContentError(
                f"{x}: column {labels!r} has {alike.iloc[0]!r} and {alike.iloc[1]!r}, which are "
                "read as one label; spell them alike"
            )
    return _from_table(table, x, labels, features, partial(_csv_line, text, how["sep"]))


def _require_distinct(path: Path, names: Sequence[str]) -> None:
    if repeated := [name for name, count in Counter(names).items() if name and count > 1]:
        raise ContentError(f"{path} has several columns named {_quoted(repeated)}; rename them")


def _csv_text(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a CSV file, and pandas' options for its separators."""
    content = read_unpacked(path, "CSV")
    utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if utf_16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(
            f"{path}: line {line} has the byte 0x{content[error.start]:02x}, which is not UTF-8; "
            "save the file in UTF-8"
        ) from None
    header = next(filter(str.strip, io.StringIO(text)), "")
    separator = max(",;|\t", key=header.count)
    decimal = "," if separator != "," and re.search(r"\d,\d", text) else "."
    return text, {"sep": separator, "decimal": decimal, "skipinitialspace": True}


def _csv_line(text: str, separator: str, row: int) -> str:
    """Return how an error calls a row of a CSV file, counted from 0 and without the header."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    lines = (reader.line_num for fields in reader if "".join(fields).strip() or len(fields) > 1)
    return f"line {next(itertools.islice(lines, row + 1, None))}"


def _from_table(
    table: pd.DataFrame, path: Path, labels: str | None, features: _Names, place: _Place
) -> RawSamples:
    import pandas as pd

    names = table.columns.tolist()
    if features is None:
        features = [name for name in names if name != labels]
        if index := [name for name in features if _INDEX_COLUMN.fullmatch(name)]:
            raise ContentError(
                f"{path} has a row index, column {_quoted(index)}; save the table without index, "
                "or, in a catalogue, list the feature columns under options, features"
            )
    if not len(table):
        raise ContentError(f"{path} has no samples, only columns")
    wanted = [*features, *([] if labels is None else [labels])]
    if missing := [name for name in wanted if name not in table]:
        raise ContentError(f"{path} has no column {_quoted(missing)}, only {_quoted(names)}")
    if labels in features:
        raise ContentError(f"{path}: column {labels!r} is both labels and a feature")
    if not features:
        raise ContentError(f"{path} has no feature column besides {labels!r}")
    columns = {name: np.asarray(table[name]) for name in wanted}
    for name, column in columns.items():
        gaps = (table[name].isna() | (table[name] == "")).to_numpy()
        if gaps.any():
            raise ContentError(
                f"{path}: column {name!r} has {gaps.sum()} missing values, the first in "
                f"{place(int(gaps.argmax()))}; fill them or remove the rows"
            )
        if name != labels and column.dtype.kind not in "biuf":
            texts = pd.Series(column).astype(str)
            row = int(pd.to_numeric(texts, errors="coerce").isna().argmax())
            raise ContentError(
                f"{path}: {place(row)}, column {name!r} is {texts[row][:40]!r}, not a number; "
                "encode texts as numbers, make it the labels, or leave it out (in a catalogue, "
                "list numeric columns under options, features)"
            )
    x = np.column_stack([columns[name] for name in features])
    y = None if labels is None else columns[labels]
    if y is not None and y.dtype.kind == "O":
        y = y.astype(np.str_)
    return RawSamples(x, y, str(path), f"{path} (column {labels!r})", tuple(features), place)


def _quoted(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown
