"""The explorer's charts in Vega-Lite, and the tables that they show.

`docs.build` has written them beside this module: to build and validate them takes a second.
"""

import json
from pathlib import Path
from typing import Any

#: JSON, and so YAML: a module's YAML file enters the digest of programs that import it.
_WRITTEN = json.loads(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
#: By name. Their data and what controls set come from the page.
CHARTS: dict[str, dict[str, Any]] = _WRITTEN["charts"]
#: Each with the view that it enters, if any.
TABLES: dict[str, str | None] = _WRITTEN["tables"]
