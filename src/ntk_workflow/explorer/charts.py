"""The explorer's charts in Vega-Lite: their data and what controls set come from the page.

They are the same in every run, so they lie beside this module, where `docs.build` has
written them: to build and validate them takes a second.
"""

import json
from pathlib import Path
from typing import Any

Spec = dict[str, Any]

#: JSON, and so YAML: a module's YAML file enters the digest of programs that import it.
WRITTEN = Path(__file__).with_suffix(".yaml")


def charts() -> dict[str, Spec]:
    """Return the charts by name."""
    found: dict[str, Spec] = json.loads(WRITTEN.read_text(encoding="utf-8"))
    return found
