"""Values without the folders of the person who gave them, so that they can be published."""

from pathlib import Path
from typing import Any


def published(value: Any, checkout: Path) -> Any:
    """Return a config value without absolute paths: relative to the checkout, or the name alone."""
    if isinstance(value, dict):
        return {key: published(inner, checkout) for key, inner in value.items()}
    if isinstance(value, list):
        return [published(inner, checkout) for inner in value]
    if not isinstance(value, str) or not Path(value).is_absolute():
        return value
    path = Path(value)
    return path.relative_to(checkout).as_posix() if checkout in path.parents else f"…/{path.name}"
