"""A folder for caches where the user's cannot be written.

Snakemake makes its folder there before it reads a workflow, and ends with a traceback if it cannot;
matplotlib and IPython, in its jobs, warn. Only plugins are imported earlier.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def give_cache_folder() -> None:
    """Let XDG_CACHE_HOME and others be a temporary folder, unless the user's own can be written."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = Path(home, "snakemake/source-cache")
    there = next(path for path in (place, *place.parents) if os.path.exists(path))
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        folder = tempfile.mkdtemp(prefix="ntk-cache-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["XDG_CACHE_HOME"] = folder
        for name in ("MPLCONFIGDIR", "IPYTHONDIR"):
            os.environ.setdefault(name, folder)
