"""Python files of the user's: of activations and networks."""

import runpy
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ntk_conditioning.errors import UserError, one_line


class PluginError(UserError):
    """A user's Python file is not there, or fails."""


def run_file(path: str | Path) -> dict[str, Any]:
    """Return what a Python file defines, by name; it is executed, and not kept for imports.

    Raises `PluginError` if there is no such file, or it fails.
    """
    key = Path(path).resolve()
    if not key.is_file():
        raise PluginError(f"{path}: no such Python file; give the path of one (.py)")
    try:
        return runpy.run_path(str(key))
    except (Exception, SystemExit) as error:  # sys.exit(3) says nothing by itself
        raise PluginError(f"{path}: {described(error, path)}") from error


def described(error: BaseException, path: str | Path) -> str:
    """Return an error in one line, with the last line of the user's file that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(Path(path).resolve())]
    number = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    where = f"line {number}: " if number else ""
    what = error.msg if isinstance(error, SyntaxError) else one_line(error)
    return f"{where}{type(error).__name__}: {what}"


def place_of(function: Any, paths: Iterable[str | Path]) -> str:
    """Return file and line of a function that one of the user's files has, to begin an error."""
    code = getattr(function, "__code__", None)
    for path in paths:
        if code and code.co_filename == str(Path(path).resolve()):
            return f"{path}: line {code.co_firstlineno}: "
    return ""
