"""Progress of long work: a bar in a terminal, a line a minute in a log."""

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm


def progress(items: Iterable[Any] | None = None, **given: Any) -> tqdm:
    """Return a tqdm over items, or one to be updated by hand."""
    pace = {"mininterval": 60, "miniters": 1, "delay": 60, "smoothing": 0}
    return tqdm(items, **given, **({} if sys.stderr.isatty() else pace))
