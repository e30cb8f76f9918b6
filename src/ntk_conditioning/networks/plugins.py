"""Python files of the user's: of activations and networks."""

import importlib.util
from pathlib import Path
from types import ModuleType

from ntk_conditioning.errors import UserError, one_line


class PluginError(UserError):
    """A user's Python file is not there, or fails."""


def run_file(path: str | Path) -> ModuleType:
    """Return the module that a Python file makes; it is executed, and not kept for imports.

    Raises `PluginError` if there is no such file, or it fails.
    """
    key = Path(path).resolve()
    spec = importlib.util.spec_from_file_location(key.stem, key) if key.is_file() else None
    if spec is None or spec.loader is None:
        raise PluginError(f"{path}: no such Python file; give the path of one (.py)")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # sys.exit(3) says nothing by itself
        raise PluginError(f"{path}: {type(error).__name__}: {one_line(error)}") from error
    return module
