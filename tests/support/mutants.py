"""Plant small bugs, one at a time, and see that tests catch them.

    python -m tests.support.mutants [NAME]

Each is planted in a temporary copy of the checkout, where the tests that should catch it must fail,
and must pass without it. mutants.txt has three lines for each: name, file and tests; what is
replaced by what; and what a user would see.
"""

import argparse
import os
import re
import shutil
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

    def planted(self, folder: Path) -> str:
        """Return the file's text with the bug."""
        text = (folder / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise SystemExit(f"{self.name}: {self.file} has {self.old!r} {count} times, not once")
        return text.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    lines = (ROOT / "tests/support/mutants.txt").read_text(encoding="utf-8").splitlines()
    read = []
    for head, change in zip(lines[::3], lines[1::3], strict=True):
        name, file, *tests = head.split()
        old, new = (part.strip() for part in change.split("=>"))
        read.append(Mutant(name, file, tests, old, new))
    return read


def failure(folder: Path, tests: list[str]) -> str | None:
    """Return the first of the tests that fails, without its parameters, or None if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    # else Python could take the bytecode of a planted bug for that of the original
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?)(?:\[|\s|$)", done.stdout, re.MULTILINE)
    if done.returncode and not failed:
        raise SystemExit(f"{' '.join(tests)} cannot run:\n{done.stdout[-3000:]}{done.stderr}")
    return failed[1] if failed else None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = {mutant.name: mutant for mutant in mutants()}
    parser.add_argument("names", nargs="*", metavar="NAME", help="of bugs; all by default")
    names = parser.parse_args().names or [*known]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="ntk-mutants-") as scratch:
        folder = Path(scratch)
        copy = f"git ls-files -z | xargs -0 cp --parents --no-dereference -t {folder}"
        subprocess.run(copy, shell=True, cwd=ROOT, check=True)
        for mutant in map(known.__getitem__, names):
            path, text = folder / mutant.file, mutant.planted(folder)
            if failed := failure(folder, mutant.tests):
                raise SystemExit(f"{failed} fails without any bug")
            path.write_text(text, encoding="utf-8")
            test = failure(folder, mutant.tests)
            shutil.copy2(ROOT / mutant.file, path)
            missed += test is None
            print(f"{mutant.name}: {f'caught by {test}' if test else 'NOT CAUGHT'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
