"""A user's data: Parquet, CSV and NumPy archives."""

from __future__ import annotations

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
from numpy.typing import NDArray

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
# What pandas writes for a row index in Parquet, and names a CSV column whose header is empty.
_UNNAMED = re.compile(r"__index_level_\d+__|Unnamed: \d+")


def read_npz(x: Path, *, features: str = "x", labels: str | None = "y if there") -> RawSamples:
    """Return the named arrays of a NumPy archive; ``labels=None`` reads none, by default y."""
    optional = ["y"] if labels == "y if there" else []
    required = [features] if optional or labels is None else [features, labels]
    arrays = load_arrays(x, required=required, optional=optional)
    name = "y" if optional else labels
    y = None if name is None else arrays.get(name)
    return RawSamples(arrays[features], y, f"{x} ({features})", f"{x} ({name})")


def read_parquet(x: Path, *, labels: str | None, features: _Names = None) -> RawSamples:
    """Return columns of a Parquet file; ``features=None`` takes all but ``labels``.

    Raises `MissingFileError`, `FormatError` if the file is no Parquet file or is damaged, and
    `ContentError` if a column is not there, is not numeric or has missing values.
    """
    import pyarrow.parquet as pq

    require_file(x)
    # Not pandas.read_parquet: that would take columns from folder names such as `year=2020`.
    with reading(x, "Parquet"), pq.ParquetFile(x, page_checksum_verification=True) as file:
        wanted = _wanted(x, file.schema_arrow.names, labels, features)
        data = file.metadata
        size = sum(data.row_group(k).total_byte_size for k in range(data.num_row_groups))
        size += 8 * data.num_rows * len(wanted)  # of equal values the file has only one
        require_unpackable(x, size, packed=x.stat().st_size)
        table = file.read(columns=wanted)
        table.validate(full=True)  # texts are decoded only later
        frame = table.to_pandas(ignore_metadata=True)
    return _samples(frame, x, labels, "row {}".format)


def read_csv(x: Path, *, labels: str | None, features: _Names = None) -> RawSamples:
    """Return columns of a CSV file with a header line, plain or packed with gzip.

    Separators are the one of ``, ; | tab`` that the header has most; beside others than commas,
    numbers may have decimal commas. The text is UTF-8, or UTF-16 with a byte order mark.

    Raises as `read_parquet`, and `ContentError` if there is no header, or if numbers such as 1,234
    may have decimal commas or commas between thousands.
    """
    import pandas as pd

    content = read_unpacked(x, "CSV")
    how = _csv_format(x, content)
    with reading(x, "CSV"), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
        header: Any = {"header": None, "nrows": 1, "dtype": str, "keep_default_na": False}
        cells = pd.read_csv(io.BytesIO(content), **how, **header).iloc[0].str.strip()
        if pd.to_numeric(cells, errors="coerce").notna().all():
            raise ContentError(f"{x} starts with numbers; its first line must name the columns")
        names = [cell or f"Unnamed: {number}" for number, cell in enumerate(cells)]
        wanted = _wanted(x, names, labels, features)
        how |= {"header": 0, "names": names, "index_col": False, "dtype": {labels: str}}
        how["low_memory"] = False  # else the types of pieces of a column could differ
        table = pd.read_csv(io.BytesIO(content), **how)[wanted]
        if how["sep"] != "," and _has_decimal_commas(x, table.drop(columns=labels or [])):
            how["decimal"] = ","
            table = pd.read_csv(io.BytesIO(content), **how)[wanted]
    place = partial(_csv_line, content, how["encoding"], how["sep"])
    return _samples(table, x, labels, place, how["decimal"])


def _csv_format(path: Path, content: bytes) -> dict[str, Any]:
    """Return pandas' options for the encoding and the separators of a CSV file."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        header = re.search(r"\S.*", content.decode(encoding))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(
            f"{path}: line {line} has the byte 0x{content[error.start]:02x}, which is not UTF-8; "
            "save the file in UTF-8"
        ) from None
    names = re.sub(r'"[^"]*"?', "", header[0] if header else "")  # quoted ones have no separators
    if re.fullmatch(r"sep=.\s*", names):
        raise ContentError(f"{path} starts with {names.strip()!r}, a line for Excel; remove it")
    separator = max(",;|\t", key=names.count)
    return {"encoding": encoding, "sep": separator, "skipinitialspace": True, "decimal": "."}


def _has_decimal_commas(path: Path, features: pd.DataFrame) -> bool:
    """Return whether numbers have commas; `ContentError` if all may separate thousands."""
    columns = features.select_dtypes(["object", "str"]).items()
    texts = (str(text) for _, column in columns for text in column)
    commas = filter(re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?").fullmatch, texts)
    first = next(commas, None)
    thousands = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}").fullmatch
    if first and all(map(thousands, itertools.chain([first], commas))):
        raise ContentError(
            f"{path}: {first} may have a decimal comma or one between thousands; write decimal "
            "points, and nothing between thousands"
        )
    return first is not None


def _csv_line(content: bytes, encoding: str, separator: str, row: int) -> str:
    """Return how an error calls a row of a CSV file, counted from 0 and without the header."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding, newline="")
    reader = csv.reader(text, delimiter=separator)
    lines = (reader.line_num for fields in reader if "".join(fields).strip() or len(fields) > 1)
    return f"line {next(itertools.islice(lines, row + 1, None))}"


def _wanted(path: Path, names: Sequence[str], labels: str | None, features: _Names) -> list[str]:
    """Return the columns of features and, last, of labels, or raise `ContentError`."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ContentError(f"{path} has several columns named {_quoted(repeated)}; rename them")
    if features is None:
        features = [name for name in names if name != labels]
        if unnamed := [name for name in features if _UNNAMED.fullmatch(name)]:
            raise ContentError(
                f"{path} has a row index or columns without names, {_quoted(unnamed)}; save it "
                "without index and without separators at the ends of lines, or, in a catalogue, "
                "list the feature columns under options, features"
            )
    wanted = [*features, *([] if labels is None else [labels])]
    if missing := sorted({*wanted} - {*names}):
        raise ContentError(f"{path} has no column {_quoted(missing)}, only {_quoted(names)}")
    if labels in features:
        raise ContentError(f"{path}: column {labels!r} is both labels and a feature")
    if not features:
        raise ContentError(f"{path} has no feature column besides {labels!r}")
    return wanted


def _samples(
    table: pd.DataFrame, path: Path, labels: str | None, place: _Place, decimal: str = "."
) -> RawSamples:
    """Return columns as arrays; texts of numbers, as of decimals and large ones, are numbers."""
    import pandas as pd

    if not len(table):
        raise ContentError(f"{path} has no samples, only columns")
    columns: dict[Any, NDArray[Any]] = {}
    for name in table:
        column = columns[name] = np.asarray(table[name])
        gaps = pd.isna(column)
        if is_text := column.dtype.kind not in "biuf":
            texts = pd.Series(column).astype(str).str.strip()
            gaps |= texts == ""
        if gaps.any():
            raise ContentError(
                f"{path}: column {name!r} has {gaps.sum()} missing values, the first in "
                f"{place(int(gaps.argmax()))}; fill them or remove the rows; in CSV also NA, None "
                "and the like are missing"
            )
        if is_text and name == labels:
            columns[name] = _numbers_or_texts(path, name, texts)
        elif is_text:
            plain = texts.str.translate({ord("."): decimal, ord(decimal): "."})
            columns[name] = pd.to_numeric(plain, errors="coerce").to_numpy(np.float64)
            if (wrong := np.isnan(columns[name])).any():
                row = int(wrong.argmax())
                raise ContentError(
                    f"{path}: {place(row)}, column {name!r} is {texts[row][:40]!r}, not a number; "
                    "encode texts as numbers, make it the labels, or leave it out (in a catalogue, "
                    "list numeric columns under options, features)"
                )
    y = columns.pop(labels, None)
    x = np.column_stack([*columns.values()])
    return RawSamples(x, y, str(path), f"{path} (column {labels!r})", tuple(columns), place)


def _numbers_or_texts(path: Path, name: str, texts: pd.Series) -> Any:
    """Return labels as numbers if all are; `ContentError` if a number is spelled in two ways."""
    import pandas as pd

    codes, kinds = pd.factorize(texts)
    spelled, logical = pd.Series(kinds), {"false": "0", "true": "1"}
    labels = pd.to_numeric(spelled.str.lower().replace(logical), errors="coerce")
    if labels.isna().any():
        labels = spelled.astype(object)
    alike = spelled.groupby(labels).unique()
    if len(alike := alike[alike.map(len) > 1]):
        raise ContentError(
            f"{path}: column {name!r} has {' and '.join(map(repr, alike.iloc[0]))}, which are read "
            "as one label; spell them alike"
        )
    return labels.to_numpy()[codes]


def _quoted(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown
