"""Many files of one table as one table, in little more memory than its rows need."""

import os
from collections.abc import Collection, Iterable
from dataclasses import replace

import pyarrow as pa

from ntk_conditioning.tables import Table, TableError, checked, read

NAMED = 20  # files that an error names; of more it gives the number
BATCH = 500  # files whose rows are joined at a time: a table of few rows is mostly its schema


def collect(
    paths: Iterable[str | os.PathLike[str]], table: Table, *, columns: Collection[str] | None = None
) -> pa.Table:
    """Return the rows of many files of one table, sorted by its keys; no rows without files.

    ``columns``, if not all, must contain the keys. `TableError` names all files that are missing
    or unreadable.
    """
    names = table.schema.names if columns is None else columns
    declared = replace(table, columns=tuple(c for c in table.columns if c.name in names))
    batch: list[pa.Table] = []
    done: list[pa.Table] = []
    problems: list[str] = []
    for path in paths:
        try:
            batch.append(read(path, table, columns=declared.schema.names))
        except TableError as error:
            problems.append(str(error))
        if len(batch) == BATCH:
            done.append(_joined(batch, declared))
    if problems:
        more = [f"and {len(problems) - NAMED:,} more files"] if len(problems) > NAMED else []
        raise TableError("\n".join([*problems[:NAMED], *more]))
    done.append(_joined(batch, declared))
    return checked(declared, _joined(done, declared))


def _joined(parts: list[pa.Table], table: Table) -> pa.Table:
    """Return the rows of tables in one piece of memory, and forget the tables."""
    empty = table.schema.empty_table()
    data = pa.concat_tables([empty, *(part.cast(table.schema) for part in parts)]).combine_chunks()
    parts.clear()
    return data
