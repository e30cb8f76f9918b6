"""What made a result: digests of a program with the modules it imports, and of a user's files."""

import ast
import fnmatch
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from ntk_conditioning.files import atomic, sha256

PACKAGES = ("ntk_conditioning", "ntk_workflow")
TABLES = "ntk_conditioning/tables"

#: Where meanings are kept: to find them takes a second, whenever Snakemake starts.
KEPT = Path(".snakemake/meanings.json")

#: What Python leaves in folders of source code.
LEFT_OUT = ("__pycache__", ".ipynb_checkpoints", "*.egg-info")
#: Bytes from which on a user's data are not read whenever Snakemake starts.
LARGE = 10**9

_IMPORT = re.compile(r"^[ \t]*(?:from ([A-Za-z_][\w.]*) )?import (\([^)]*\)|[^\n]*)", re.MULTILINE)


def source_digest(*programs: str | Path, source: str | Path) -> str:
    """Return the sha256 (hex, first 16 digits) of programs and of all that they import.

    Programs are Python files or notebooks. Followed, transitively, are imports of modules of the
    packages in the folder ``source``, with the templates beside them and the YAML file of their
    name, of tables that they name, and of files beside the importing program; all other imports
    are covered by the pinned environment. Comments, docstrings, layout and a notebook's outputs do
    not enter: they cannot change a result.
    """
    meanings: dict[Path, str] = {}
    before = len(_known())
    queue, root = [Path(program).resolve() for program in programs], Path(source).resolve()
    while queue:
        path = queue.pop()
        if path not in meanings:
            status = path.stat()
            meanings[path], used = _inspect(path, root, status.st_mtime_ns, status.st_size)
            queue += used
    if len(_known()) > before and KEPT.parent.is_dir():
        with suppress(OSError), atomic(KEPT) as temporary:  # no more than time is lost without it
            temporary.write_text(json.dumps(_known()), encoding="utf-8")
    # by name and content: the digest is the same wherever the checkout is
    listing = "\n".join(sorted(f"{path.name} {meaning}" for path, meaning in meanings.items()))
    return hashlib.sha256(listing.encode()).hexdigest()[:16]


@cache
def _inspect(path: Path, root: Path, mtime_ns: int, size: int) -> tuple[str, list[Path]]:
    """Return the sha256 of a file's meaning and the files it uses; cached while unchanged."""
    text, tables = path.read_text(encoding="utf-8"), root / TABLES
    if path.suffix in (".j2", ".yaml"):
        others = re.findall(r"(?m): as in (\w+)$", text) if path.parent == tables else []
        return hashlib.sha256(text.encode()).hexdigest(), [tables / f"{n}.yaml" for n in others]
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    used = [*_imported(text, path, root)]
    if path.is_relative_to(root):  # a config beside a user's program is none of its code
        used += [*path.parent.glob("templates/*.j2"), path.with_suffix(".yaml")]
    if tables / "__init__.py" in used:
        every = "TABLES" in text
        used += [file for file in tables.glob("*.yaml") if every or f'"{file.stem}"' in text]
    key = hashlib.sha256(f"{sys.version} {text}".encode()).hexdigest()
    if key not in _known():
        _known()[key] = hashlib.sha256(_meaning(text, path).encode()).hexdigest()
    return _known()[key], [file for file in dict.fromkeys(used) if file.is_file()]


@cache
def _known() -> dict[str, str]:
    """Return the meanings of programs that were read before, by their text."""
    with suppress(OSError, ValueError):
        return dict(json.loads(KEPT.read_text(encoding="utf-8")))
    return {}


def _meaning(text: str, path: Path) -> str:
    """Return a program without comments, layout and docstrings; whole if it is not Python alone."""
    with suppress(SyntaxError):  # of a notebook with magic commands
        tree = ast.parse(text, str(path))
        for node in ast.walk(tree):
            documented = ast.Module | ast.ClassDef | ast.FunctionDef
            if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:]
        return ast.dump(tree)
    return text


def _imported(text: str, path: Path, root: Path) -> Iterator[Path]:
    """Yield the files that a program's imports run, as far as they are followed."""
    for module, names in _IMPORT.findall(text):
        for name in re.findall(r"[\w.]+", re.sub(r"#.*", "", names)):
            parts = f"{module}.{name}".removeprefix(".").split(".")
            folder = str(root if parts[0] in PACKAGES else path.parent)
            for part in parts:
                folder = f"{folder}/{part}"
                candidates = (f"{folder}/__init__.py", f"{folder}.py")
                yield from (Path(file) for file in candidates if os.path.isfile(file))


def path_digest(path: str | Path) -> str:
    """Return the sha256 (hex) of a file, or of the names and contents of all files in a folder.

    It is empty if there is neither. What Python leaves in folders does not count. Of `LARGE` data,
    sizes and times stand for contents: a workflow asks for this whenever it is started, and a
    corpus has gigabytes.
    """
    path = Path(path)
    if not path.exists():
        return ""
    out, files = re.compile("|".join(map(fnmatch.translate, LEFT_OUT))), sorted(path.rglob("*"))
    inside = [file for file in files if file.is_file() and not any(map(out.match, file.parts))]
    states = {file: file.stat() for file in (inside if path.is_dir() else [path])}
    large = sum(state.st_size for state in states.values()) >= LARGE
    if path.is_file() and not large:
        return sha256(path)
    lines = [
        f"{file.relative_to(path).as_posix()} "
        + (f"{state.st_size} {state.st_mtime_ns}" if large else sha256(file))
        for file, state in states.items()
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
