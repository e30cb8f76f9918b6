"""Plant small bugs, one at a time, and see that tests catch them.

    python -m tests.support.mutants [NAME]

Each is planted in a temporary copy of the checkout, where the tests that should catch it must fail,
and must pass without it. mutants.txt has three lines for each: name, file and tests; what is
replaced by what; and what a user would see.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """A bug: ``old``, which ``file`` has once, becomes ``new``; ``tests`` should fail."""

    name: str
    file: str
    tests: list[str]
    old: str
    new: str


def mutants() -> list[Mutant]:
    lines = (ROOT / "tests/support/mutants.txt").read_text(encoding="utf-8").splitlines()
    read = []
    for head, change in zip(lines[::3], lines[1::3], strict=True):
        name, file, *tests = head.split()
        read.append(Mutant(name, file, tests, *map(str.strip, change.split("=>"))))
    return read


def passes(folder: Path, tests: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    # else Python could take the bytecode of a planted bug for that of the original
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True)
    assert done.returncode in (0, 1), f"{tests} cannot run"
    return done.returncode == 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ntk-mutants-") as scratch:
        copy = f"git ls-files -z | xargs -0 cp --parents --no-dereference -t {scratch}"
        subprocess.run(copy, shell=True, cwd=ROOT, check=True)
        for mutant in mutants():
            if mutant.name in (sys.argv[1:] or [mutant.name]):
                path = Path(scratch, mutant.file)
                text = path.read_text(encoding="utf-8")
                assert passes(Path(scratch), mutant.tests), f"{mutant.tests} fail without any bug"
                path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
                caught = not passes(Path(scratch), mutant.tests)
                path.write_text(text, encoding="utf-8")
                print(f"{mutant.name}: {'caught' if caught else 'NOT CAUGHT'}", flush=True)
