"""Random forgeries of tables: one value anywhere, as somebody would change it by hand."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ntk_conditioning import tables
from ntk_conditioning.tables.registry import TABLES


def forge(folder: Path, rng: random.Random) -> tuple[str, str, dict[str, Any]]:
    """Change one value of a table in a folder; return the table, the column and the row's key."""
    paths = sorted(folder.rglob("*.parquet"))
    while True:
        path = rng.choice(paths)
        data = pq.read_table(path, partitioning=None)
        if len(data):
            break
    table = TABLES[data.schema.metadata[b"table"].decode()]
    row, column = rng.randrange(len(data)), rng.choice(table.columns)
    value = data[column.name][row].as_py()
    values = data[column.name].to_pylist()
    values[row] = changed(value, column.type, rng)
    key = {name: data[name][row].as_py() for name in table.keys}
    index = data.schema.get_field_index(column.name)
    forged = data.set_column(index, data.schema.field(index), pa.array(values, column.type))
    try:
        tables.write(path, table, forged)
    except tables.TableError:  # the key is another row's
        return forge(folder, rng)
    return path.relative_to(folder).as_posix(), column.name, key


def changed(value: Any, kind: pa.DataType, rng: random.Random) -> Any:
    """Return another value of the same type."""
    if pa.types.is_list(kind):
        if not value:
            return [1.0]
        place = rng.randrange(len(value))
        return [*value[:place], changed(value[place], kind.value_type, rng), *value[place + 1 :]]
    if value is None:
        return {"string": "more", "bool": True, "int64": 7}.get(str(kind), 7.0)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((1, -1, 10))
    if isinstance(value, float):
        return value * rng.choice((0.5, 0.99, 1.01, 2.0)) if value else 0.5
    return f"{value}x"
