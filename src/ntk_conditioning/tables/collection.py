"""Many files of one table as one table, in little more memory than its rows need."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

import pyarrow as pa

from ntk_conditioning.tables import Table, TableError, checked, read

NAMED = 20
"""Files that an error names; of more it tells the number."""

BATCH = 500
"""Files whose rows are laid together at a time: a table of few rows is mostly its schema."""


def collect(
    paths: Iterable[str | os.PathLike[str]],
    table: Table,
    *,
    columns: Collection[str] | None = None,
) -> pa.Table:
    """Return the rows of many files of one table, sorted by its keys; no rows without files.

    ``columns`` limits what is read of them and must contain the keys.

    Raises:
        TableError: naming the files that are missing or unreadable, or for a repeated key.
    """
    declared = table if columns is None else table.only(columns)
    names = [column.name for column in declared.columns]
    parts: list[pa.Table] = []
    done: list[pa.Table] = []
    problems: list[str] = []
    for path in paths:
        try:
            parts.append(read(path, table, columns=names))
        except TableError as error:
            problems.append(str(error))
        if len(parts) == BATCH:
            done.append(_laid_together(parts, declared))
    if problems:
        more = len(problems) - NAMED
        named = problems[:NAMED] + ([f"and {more:,} more files"] if more > 0 else [])
        raise TableError("\n".join(named))
    done.append(_laid_together(parts, declared))
    return checked(declared, _laid_together(done, declared))


def _laid_together(parts: list[pa.Table], table: Table) -> pa.Table:
    """Return the rows of tables in one piece of memory, and forget the tables."""
    empty = table.schema.empty_table()
    data = pa.concat_tables([empty, *(part.cast(table.schema) for part in parts)]).combine_chunks()
    parts.clear()
    return data
