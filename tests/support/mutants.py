"""Plant small bugs, one at a time, and see that tests catch them.

    python -m tests.support.mutants [NAME]

Each is planted in one temporary copy of the checkout, where the tests that should catch it must
fail, and must pass without it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Ten of the numerics, ten of the workflow, ten of bundle and data. Three lines each: name, file
#: and tests, what is replaced by what, and what a user would see.
TABLE = ROOT / "tests/support/mutants.txt"


@dataclass(frozen=True)
class Mutant:
    """A bug: ``old``, which ``file`` has once, becomes ``new``; ``tests`` should fail."""

    name: str
    file: str
    tests: tuple[str, ...]
    old: str
    new: str
    effect: str

    def planted(self, folder: Path) -> str:
        """Return the file's text with the bug."""
        text = (folder / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise SystemExit(f"{self.name}: {self.file} has {self.old!r} {count} times, not once")
        return text.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    """Return the bugs of the table."""
    lines = [line.strip() for line in TABLE.read_text(encoding="utf-8").splitlines()]
    read = []
    for head, change, effect in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        name, file, *tests = head.split()
        old, new = (part.strip() for part in change.split("=>"))
        read.append(Mutant(name, file, tuple(tests), old, new, effect))
    return read


def failure(folder: Path, tests: Sequence[str]) -> str | None:
    """Return the first of the tests that fails, without its parameters, or None if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    # else Python could take the bytecode of a planted bug for that of the original
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?)(?:\[|\s|$)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or not failed:
        raise SystemExit(f"{' '.join(tests)} cannot run:\n{done.stdout[-3000:]}{done.stderr}")
    return failed[1]


def copied(folder: Path) -> Path:
    """Return the folder with a copy of the checkout's tracked files."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in listed.split("\0")[:-1]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def main(argv: Sequence[str] | None = None) -> int:
    known = {mutant.name: mutant for mutant in mutants()}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of bugs; all by default")
    names = parser.parse_args(argv).names
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no bug is called {unknown[0]}; they are {', '.join(known)}")
    chosen = [known[name] for name in names or known]
    caught = []
    with tempfile.TemporaryDirectory(prefix="ntk-mutants-") as scratch:
        folder = copied(Path(scratch))
        texts = {mutant: mutant.planted(folder) for mutant in chosen}  # all are checked first
        for tests in dict.fromkeys(mutant.tests for mutant in chosen):
            if failed := failure(folder, tests):
                raise SystemExit(f"{failed} fails without any bug")
            for mutant in (each for each in chosen if each.tests == tests):
                path = folder / mutant.file
                original = path.read_bytes()
                path.write_text(texts[mutant], encoding="utf-8")
                test = failure(folder, tests)
                path.write_bytes(original)
                caught.append(bool(test))
                print(f"{mutant.name}: {f'caught by {test}' if test else 'NOT CAUGHT'}", flush=True)
    return 0 if all(caught) else 1


if __name__ == "__main__":
    sys.exit(main())
