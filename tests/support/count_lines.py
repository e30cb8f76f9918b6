"""Compare the lines of each part of the repository with its budget in pyproject.toml.

    python -m tests.support.count_lines

Exits with 1 where a part is over its budget: it shrinks before it grows.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def lines_of(patterns: list[str]) -> int:
    """Return the lines of the files in git that match any of the patterns."""
    files = subprocess.check_output(["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, text=True)
    paths = [ROOT / name for name in files.split("\0") if name]
    return sum(path.read_text().count("\n") for path in paths if path.exists())


def main() -> None:
    """Print a line for each part."""
    budgets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["budgets"]
    counts = {part: lines_of(budget["files"]) for part, budget in budgets.items()}
    for part, count in counts.items():
        over = "  over the budget" if count > budgets[part]["lines"] else ""
        print(f"{part:10} {count:6,} of {budgets[part]['lines']:6,} lines{over}")
    sys.exit(any(counts[part] > budgets[part]["lines"] for part in budgets))


if __name__ == "__main__":
    main()
