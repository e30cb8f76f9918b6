"""Random forgeries of a bundle: one value anywhere, as somebody would change it by hand."""

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pypdf
import yaml
from PIL import Image, PngImagePlugin
from pypdf.generic import DecodedStreamObject, NameObject

from ntk_conditioning import tables
from ntk_conditioning.tables import TABLES

CRATE = "ro-crate-metadata.json"


@dataclass(frozen=True)
class Forged:
    """What was changed: files of the payload, the place in them, and the value before and after."""

    files: tuple[str, ...]
    place: str
    before: Any
    after: Any


def forge_table(payload: Path, rng: random.Random) -> Forged:
    """Change one value of a table; of a row that two tables have, in both of them."""
    kinds = defaultdict(list)
    for path in sorted(payload.glob("results/*/tables/**/*.parquet")):
        if len(data := pq.read_table(path, partitioning=None)):
            kinds[data.schema.metadata[b"table"].decode()].append(path)
    while True:
        kind = rng.choice(sorted(kinds))
        table, path = TABLES[kind], rng.choice(kinds[kind])
        data = pq.read_table(path, partitioning=None)
        row, column = rng.randrange(len(data)), rng.choice(table.columns)
        before = data[column.name][row].as_py()
        after = changed(before, column.type, rng)
        key = {name: data[name][row].as_py() for name in table.keys}
        paths = [each for each in kinds[kind] if each in (path, collection(path))]
        try:
            for each in paths:
                _set(each, table, key, column, after)
        except tables.TableError:  # the key is another row's
            continue
        names = tuple(each.relative_to(payload).as_posix() for each in paths)
        return Forged(names, f"{kind}.{column.name} at {key}", before, after)


def collection(path: Path) -> Path:
    """Return the table that has all experiments' rows, of a table of one of them."""
    return path if path.parent.name == "tables" else path.parent.with_suffix(".parquet")


def _set(
    path: Path, table: tables.Table, key: Mapping[str, Any], column: pa.Field, value: Any
) -> None:
    data = pq.read_table(path, partitioning=None)
    keys = data.select([*table.keys]).to_pylist()
    values = data[column.name].to_pylist()
    values[keys.index(key)] = value
    index = data.schema.get_field_index(column.name)
    forged = data.set_column(index, data.schema.field(index), pa.array(values, column.type))
    tables.write(path, table, forged)


def changed(value: Any, kind: pa.DataType, rng: random.Random) -> Any:
    """Return another value of the same type."""
    if pa.types.is_list(kind):
        if not value:
            return [1.0]
        place = rng.randrange(len(value))
        return [*value[:place], changed(value[place], kind.value_type, rng), *value[place + 1 :]]
    if value is None:
        return {"string": "more", "bool": True, "int64": 7}.get(str(kind), 7.0)
    return other(value, rng)


def other(value: Any, rng: random.Random) -> Any:
    """Return another value like this one."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return value + rng.choice((1, -1, 10))
    if isinstance(value, float):
        return value * rng.choice((0.5, 0.99, 1.01, 2.0)) if value else 0.5
    return f"{value}x"


def forge_record(payload: Path, rng: random.Random) -> Forged:
    """Change one value of a record of the run, or of the crate."""
    paths = [*sorted(payload.glob("results/*/record/*")), payload / CRATE]
    path = rng.choice(paths)
    return _forge_leaf(payload, path, rng)


def forge_notebook(payload: Path, rng: random.Random) -> Forged:
    """Change one value of an executed notebook: of its code, its outputs or its metadata."""
    return _forge_leaf(payload, rng.choice(sorted(payload.glob("results/**/*.ipynb"))), rng)


def _forge_leaf(payload: Path, path: Path, rng: random.Random) -> Forged:
    text = path.read_text(encoding="utf-8")
    content = yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)
    parts, above, last = [], None, None
    below = content
    while isinstance(below, dict | list) and below:
        last = rng.choice([*below]) if isinstance(below, dict) else rng.randrange(len(below))
        above, below = below, below[last]
        parts.append(str(last))
    after = "more" if isinstance(below, dict | list) else other(below, rng)
    above[last] = after
    if path.suffix == ".yaml":
        text = yaml.safe_dump(content, sort_keys=True, allow_unicode=True)
    else:
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
    name = path.relative_to(payload).as_posix()
    return Forged((name,), f"{name}: {'.'.join(parts)}", below, after)


def forge_page(payload: Path, rng: random.Random) -> Forged:
    """Change a digit or a letter of a page."""
    pages = [*payload.glob("results/*/*.html"), *payload.glob("results/*/*.md")]
    return _forge_text(payload, rng.choice(sorted([*pages, *payload.glob("*.md")])), rng)


def forge_source(payload: Path, rng: random.Random) -> Forged:
    """Change a digit or a letter of a file of the source, with all kinds of files alike."""
    kinds = defaultdict(list)
    for path in sorted((payload / "workflow").rglob("*")):
        if path.is_file() and path.stat().st_size:
            kinds[path.suffix].append(path)
    while True:
        path = rng.choice(kinds[rng.choice(sorted(kinds))])
        try:
            return _forge_text(payload, path, rng)
        except (UnicodeDecodeError, IndexError):  # no text, or none to change
            continue


def _forge_text(payload: Path, path: Path, rng: random.Random) -> Forged:
    text = path.read_text(encoding="utf-8")
    found = rng.choice([*re.finditer("[0-9a-z]", text)])
    after = rng.choice([each for each in "0123456789" if each != found[0]])
    path.write_text(f"{text[: found.start()]}{after}{text[found.end() :]}", encoding="utf-8")
    name, line = path.relative_to(payload).as_posix(), text.count("\n", 0, found.start()) + 1
    return Forged((name,), f"{name}: line {line}", found[0], after)


def forge_figure(payload: Path, rng: random.Random) -> Forged:
    """Paint a square on a picture, or shift what a PDF draws."""
    figures = sorted(payload.glob("results/*/figures/**/*.p*"))
    path = rng.choice(figures)
    if path.suffix == ".png":
        with Image.open(path) as picture:
            kept = PngImagePlugin.PngInfo()
            for key, value in picture.info.items():
                if isinstance(value, str):
                    kept.add_text(key, value)
            x, y = rng.randrange(picture.width - 20), rng.randrange(picture.height - 20)
            picture.paste("black", (x, y, x + 20, y + 20))
            picture.save(path, pnginfo=kept, dpi=picture.info.get("dpi"))
        before, after = "", f"a square at {x}, {y}"
    else:
        before, after = _shift(path, rng)
    name = path.relative_to(payload).as_posix()
    return Forged((name,), name, before, after)


def _shift(path: Path, rng: random.Random) -> tuple[str, str]:
    """Change a number of the stream that draws a page."""
    writer = pypdf.PdfWriter(clone_from=path)
    page = writer.pages[0]
    drawn = page.get_contents().get_data()
    number = rng.choice([*re.finditer(rb"(?<=\s)\d+\.\d+(?= \d+\.\d+ l\s)", drawn)])
    after = b"%.3f" % (float(number[0]) + 5)
    stream = DecodedStreamObject()
    stream.set_data(drawn[: number.start()] + after + drawn[number.end() :])
    page[NameObject("/Contents")] = writer._add_object(stream)
    writer.write(path)
    return number[0].decode(), after.decode()


Forge = Callable[[Path, random.Random], Forged]
#: By kind, what makes a forgery of it.
FORGERS: Mapping[str, Forge] = {
    "table": forge_table,
    "record": forge_record,
    "page": forge_page,
    "notebook": forge_notebook,
    "figure": forge_figure,
    "source": forge_source,
}
