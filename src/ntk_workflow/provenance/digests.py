"""What made a result: digests of a program with the modules it imports, and of a user's files."""

import ast
import atexit
import fnmatch
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ntk_conditioning.files import sha256, write_text

PACKAGES = ("ntk_conditioning", "ntk_workflow")


def source_digest(*programs: str | Path, source: str | Path) -> str:
    """Return the sha256 (hex, first 16 digits) of programs and of all that they import.

    Programs are Python files or notebooks. Followed, transitively, are imports of modules of the
    packages in the folder ``source``, with the templates beside them and the YAML file of their
    name, and of files beside the importing program; all other imports are covered by the pinned
    environment. Comments, docstrings, layout and a notebook's outputs do not enter: they cannot
    change a result.

    Raises:
        FileNotFoundError: if a program does not exist.
        SyntaxError: if a file cannot be parsed.
    """
    seen: dict[Path, str] = {}
    queue = [Path(program).resolve() for program in programs]
    root = Path(source).resolve()
    while queue:
        path = queue.pop()
        if path not in seen:
            status = path.stat()
            seen[path], imported = _inspect(path, root, status.st_mtime_ns, status.st_size)
            queue.extend(imported)
    # by name and content: the digest is the same wherever the checkout is
    listing = "\n".join(sorted(f"{path.name} {meaning}" for path, meaning in seen.items()))
    return hashlib.sha256(listing.encode()).hexdigest()[:16]


def path_digest(path: str | Path) -> str:
    """Return the sha256 (hex) of a file, or of the names and contents of all files in a folder.

    It is empty if there is neither. Times do not enter, but what has been read once is read again
    only when a file's times, size or inode have changed: a workflow asks for this whenever it is
    started, and a corpus has gigabytes.
    """
    path = Path(path)
    if path.is_dir():
        contents = _contents(path, sorted(item for item in path.rglob("*") if item.is_file()))
        listing = "\n".join(f"{name} {digest}" for name, digest in contents.items())
        return hashlib.sha256(listing.encode()).hexdigest()
    if not path.is_file():
        return ""
    return sha256(path) if path.stat().st_size < NOTED else _contents(path, [path])["."]


#: Where the sha256 of the user's files are kept, and from how many bytes on of a single file.
CONTENTS, NOTED = Path(".snakemake/content_digests.json"), 10_000_000

_TICK = 2_000_000_000  # nanoseconds; the coarsest clock of a file system


def _contents(root: Path, files: Iterable[Path]) -> dict[str, str]:
    """Return the sha256 of files by their names below the root, in their order."""
    place, key, start = CONTENTS.absolute(), str(root.absolute()), time.time_ns()
    notes: dict[str, dict[str, list[Any]]] = {}
    with suppress(OSError, ValueError):
        notes = json.loads(place.read_text(encoding="utf-8"))
    before = notes.get(key, {})
    stamps = {}
    for file in files:
        status = file.stat()
        # mtime can be set back, ctime cannot
        stamp = [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]
        stamps[file.relative_to(root).as_posix()] = stamp
    same = {name: before[name][1] for name in stamps if before.get(name, [0])[0] == stamps[name]}
    changed = [name for name in stamps if name not in same]
    with ThreadPoolExecutor() as pool:  # for the many small files of a corpus on a network
        read = dict(zip(changed, pool.map(lambda name: sha256(root / name), changed), strict=True))
    digests = {name: same.get(name) or read[name] for name in stamps}
    if (read or len(before) > len(stamps)) and place.parent.is_dir():
        # What has only just been written could change once more without another time.
        old = [name for name in stamps if stamps[name][1] < start - _TICK]
        notes[key] = {name: [stamps[name], digests[name]] for name in old}
        with suppress(OSError):
            write_text(place, json.dumps(notes))
    return digests


#: What Python leaves in folders of source code.
LEFT_OUT = ("__pycache__", ".ipynb_checkpoints", "*.egg-info")


def folder_digest(paths: Iterable[str | Path]) -> str:
    """Return the sha256 (hex) of files and of all files in folders, but for what Python leaves."""
    digest = hashlib.sha256()
    for path in map(Path, paths):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            left = any(fnmatch.filter(file.parts, pattern) for pattern in LEFT_OUT)
            if file.is_file() and not left:
                digest.update(f"{file.name} {path_digest(file)}".encode())
    return digest.hexdigest()


@cache
def _inspect(path: Path, root: Path, mtime_ns: int, size: int) -> tuple[str, tuple[Path, ...]]:
    """Return the sha256 of a file's meaning and the files it imports; cached while unchanged."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".j2", ".yaml"):
        return hashlib.sha256(text.encode()).hexdigest(), ()
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    key = hashlib.sha256(f"{_HOW} {text}".encode()).hexdigest()
    if key not in _notes():
        _notes()[key] = _parsed(text, str(path))
    meaning, names = _notes()[key]
    data: list[Path] = []
    if path.is_relative_to(root):  # a config beside a user's program is none of its code
        data += [*sorted(path.parent.glob("templates/*.j2")), path.with_suffix(".yaml")]
    return meaning, (*_imported(names, path, root), *filter(Path.is_file, data))


#: How texts are read here: by these lines and this Python.
_HOW = hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).hexdigest()

#: What `_parsed` has returned, by the content of files, for the next Snakemake in this folder: it
#: spends a third of the time until it knows its jobs on that. Nothing is lost if this is deleted.
NOTES = Path(".snakemake/source_digests.json")


@cache
def _notes() -> dict[str, tuple[str, list[str]]]:
    """Return the notes of earlier processes, to be added to; they are kept when this one ends."""
    path = NOTES.absolute()
    notes: dict[str, tuple[str, list[str]]] = {}
    with suppress(OSError, ValueError):
        notes = json.loads(path.read_text(encoding="utf-8"))
    atexit.register(_keep, notes, path, len(notes))
    return notes


def _keep(notes: dict[str, tuple[str, list[str]]], path: Path, before: int) -> None:
    if len(notes) > before and path.parent.is_dir():
        with suppress(OSError):
            write_text(path, json.dumps(notes))


def _parsed(text: str, path: str) -> tuple[str, list[str]]:
    """Return the sha256 of what a program means, and the names of what it imports."""
    tree = ast.parse(text, path)
    names: dict[str, None] = {}
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            parts = (f"{node.module}.{alias.name}" for alias in node.names)
            names |= dict.fromkeys((node.module, *parts))
        elif isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), [*names]


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all statements in it; `ast.walk` would visit every name and number, too."""
    yield node
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            yield from _statements(child)


def _imported(names: Iterable[str], path: Path, root: Path) -> Iterator[Path]:
    """Yield the files that a program's imports run, as far as they are followed."""
    for parts in (name.split(".") for name in names):
        folder = str(root if parts[0] in PACKAGES else path.parent)
        for part in parts:
            folder = f"{folder}/{part}"
            candidates = (f"{folder}/__init__.py", f"{folder}.py")
            yield from (Path(file) for file in candidates if os.path.isfile(file))
