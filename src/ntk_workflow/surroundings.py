"""What a run needs of the machine, asked before any job."""

import os
import sys
from pathlib import Path

from ntk_conditioning.errors import UserError


def require_surroundings(checkout: Path) -> None:
    """Raise `UserError` where results could not be written, or names of files not be read."""
    if {"{", "}"} & {*str(checkout)}:
        raise UserError(f"{checkout}: Snakemake reads braces in the workflow's path as wildcards")
    if (encoding := sys.getfilesystemencoding()) != "utf-8":
        raise UserError(f"names of files are {encoding} here, not UTF-8: export PYTHONUTF8=1")
    folder = Path.cwd()
    for path in (folder, folder / ".snakemake"):
        if path.exists() and not os.access(path, os.W_OK):
            raise UserError(
                f"{path} cannot be written, and results, logs and notes go into the working "
                "folder: choose another by --directory FOLDER"
            )
