"""Speed against the peers: `make bench`, or `python -m benchmarks NAME` for one benchmark.

A benchmark is a module with `measure(settings)`, which returns what goes into its JSON file,
`markdown(result)` and `figure(result)`, which tell it to a reader.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))  # whose loop and checkpoints are measured too
sys.path.insert(0, str(ROOT / "src"))  # the package need not be installed
