"""Do the files of a bundle say the same? Tables against their declarations, files against the jobs.

A number that was changed together with every checksum cannot be told from an original: for that,
compare the archive's own sha256 with the one that was published, or run the workflow again.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path

import pyarrow.parquet as pq

from ntk_conditioning import tables
from ntk_conditioning.bundle import BundleError
from ntk_conditioning.errors import one_line
from ntk_conditioning.files import sha256
from ntk_conditioning.tables import Table


def declared_tables() -> dict[str, Table]:
    """Return every table that the package declares, by its name."""
    modules = (module.name for module in pkgutil.iter_modules(tables.__path__))
    found = [vars(importlib.import_module(f"{tables.__name__}.{name}")) for name in modules]
    values = (value for names in found for value in names.values())
    return {value.name: value for value in values if isinstance(value, Table)}


def require_tables(folder: Path) -> int:
    """Return how many tables lie in a folder and below, all as they are declared.

    Raises:
        BundleError: if a file is no Parquet, or its columns, types, units, keys or their order are
            not those that the package declares.
    """
    known = declared_tables()
    paths = sorted(folder.rglob("*.parquet"))
    for path in paths:
        if problem := _table_problem(path, known):
            raise BundleError(f"{path.relative_to(folder).as_posix()}: {problem}")
    return len(paths)


def _table_problem(path: Path, known: dict[str, Table]) -> str | None:
    try:
        metadata = pq.read_schema(path).metadata or {}
        table = known.get(metadata.get(b"table", b"").decode())
        if table is None:
            return "no table that this version of the package declares"
        data = tables.read(path, table)
        told = [data.schema.metadata, *(field.metadata for field in data.schema)]
        if told != [table.schema.metadata, *(field.metadata for field in table.schema)]:
            return f"the table {table.name} of another version: it describes its columns otherwise"
        if not data.equals(tables.checked(table, data)):
            return f"its rows are not in the order of {', '.join(table.keys)}"
    except tables.TableError as error:
        return str(error).removeprefix(f"{path}: ").removesuffix("; delete it")
    except (OSError, ValueError) as error:
        return f"no Parquet file that can be read ({one_line(error)})"
    return None


def require_provenance(folder: Path, jobs: str) -> int:
    """Return how many files of a bundle are those that its jobs have written or read.

    ``jobs`` is the file in ``folder`` that tells of the jobs.

    Raises:
        BundleError: if that file cannot be read, or a file is not the one that it tells of.
    """
    try:
        files = json.loads((folder / jobs).read_text(encoding="utf-8"))["files"]
        expected = {name: facts["sha256"] for name, facts in files.items() if "sha256" in facts}
    except FileNotFoundError:
        raise BundleError(f"{jobs}: missing, so nothing tells who made the files") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BundleError(f"{jobs}: damaged, it tells of no jobs") from None
    count = 0
    for name, digest in expected.items():
        path = folder / name
        if ".." in Path(name).parts or Path(name).is_absolute() or not path.is_file():
            continue  # not part of the bundle
        count += 1
        if sha256(path) != digest:
            raise BundleError(f"{name}: changed, it is not the file that its job has written")
    return count
