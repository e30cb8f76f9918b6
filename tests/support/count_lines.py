"""Compare the lines of each part of the repository with its budget in pyproject.toml.

    python -m tests.support.count_lines

Exits with 1 where a part is over its budget: it shrinks before it grows.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


if __name__ == "__main__":
    failed = False
    budgets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["budgets"]
    for part, budget in budgets.items():
        command = ["git", "ls-files", "-z", "--", *budget["files"]]
        names = subprocess.check_output(command, cwd=ROOT, text=True).split("\0")
        paths = [ROOT / name for name in names if name]
        count = sum(path.read_text().count("\n") for path in paths if path.exists())
        over = "  over the budget" if count > budget["lines"] else ""
        print(f"{part:10} {count:6,} of {budget['lines']:6,} lines{over}")
        failed |= bool(over)
    sys.exit(failed)
