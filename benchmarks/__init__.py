"""Speed against the peers: `make bench`, or `python -m benchmarks NAME` for one benchmark.

A benchmark is a module with a `TITLE`, `measure(settings)`, which returns the content of its JSON
file, and `markdown(result)`, which returns its section of README.md.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # the package need not be installed
