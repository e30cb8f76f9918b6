"""What runs and programs need of the machine, asked before they begin."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from ntk_conditioning.errors import UserError


def require_utf8(names: Iterable[str]) -> None:
    """Raise `UserError` where names of files are not UTF-8, as libraries take and write them."""
    if (encoding := sys.getfilesystemencoding()) != "utf-8":
        raise UserError(f"names of files are {encoding} here, not UTF-8: export PYTHONUTF8=1")
    for name in names:
        if any("\ud800" <= letter <= "\udfff" for letter in name):  # how Python writes other bytes
            raise UserError(f"{name!a}: not a name in UTF-8; rename it")


def require_surroundings(checkout: Path) -> None:
    """Raise `UserError` where results could not be written, or names of files not be read."""
    if {"{", "}"} & {*str(checkout)}:
        raise UserError(f"{checkout}: Snakemake reads braces in the workflow's path as wildcards")
    folder = Path.cwd()
    require_utf8([str(checkout), str(folder)])
    for path in (folder, folder / ".snakemake"):
        if path.exists() and not os.access(path, os.W_OK):
            raise UserError(
                f"{path} cannot be written, and results, logs and notes go into the working "
                "folder: choose another by --directory FOLDER"
            )
