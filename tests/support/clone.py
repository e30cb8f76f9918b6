"""A copy of the workflow in a temporary folder, in which Snakemake really runs."""

import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from tests.support import snakemake_forks

ROOT = Path(__file__).parents[2]
FILES = "CITATION.cff LICENSE Makefile README.md Snakefile config.yaml datasets.yaml pyproject.toml"
FOLDERS = "config docs/examples envs notebooks papers profiles resources rules schemas scripts src"


class Clone:
    """A copy of the workflow; `run` calls Snakemake in it, `plan` asks what would run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        # what Python has compiled is taken along, but not what another process is just writing
        ignore = shutil.ignore_patterns("*.pyc.*", "*.egg-info")
        for name in FILES.split():
            shutil.copy2(ROOT / name, folder / name)
        for name in FOLDERS.split():
            shutil.copytree(ROOT / name, folder / name, ignore=ignore, symlinks=True)
        (folder / "slurm").symlink_to((ROOT / "slurm").readlink())

    @classmethod
    def at(cls, folder: Path) -> "Clone":
        """Return a clone that is there already."""
        clone = object.__new__(cls)
        clone.folder = folder
        return clone

    def environment(self) -> dict[str, str]:
        """Return the environment in which Snakemake runs."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path}
        for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
            environment.pop(name, None)
        return environment

    def run(self, *arguments: str, check: bool = True) -> snakemake_forks.Done:
        done = snakemake_forks.run(arguments, self.folder, self.environment())
        if check and done.returncode:
            output = f"{done.stdout[-6000:]}\n{done.stderr[-9000:]}"
            pytest.fail(f"snakemake {' '.join(arguments)}\n{output}")
        return done

    def plan(self, *arguments: str) -> Counter[str]:
        """Return how often each rule would run."""
        done = self.run("-n", *arguments)
        return job_counts(done.stdout + done.stderr)

    def planned_outputs(self, *arguments: str) -> set[str]:
        """Return the outputs of all jobs that would run."""
        done = self.run("-n", *arguments)
        lines = re.findall(r"^\s+output: (.*)$", done.stdout + done.stderr, re.MULTILINE)
        return {name for line in lines for name in line.split(", ")}

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text()
        assert old in text, f"{file} has no {old!r}"
        path.write_text(text.replace(old, new, 1))

    def table(self, path: str | Path) -> pd.DataFrame:
        """Return a Parquet table of a run."""
        return pd.read_parquet(self.folder / path)

    def files(self, pattern: str) -> list[Path]:
        return sorted(path for path in self.folder.glob(pattern) if path.is_file())


def job_counts(text: str) -> Counter[str]:
    """Return how often each rule runs as Snakemake says; targets without a job are left out."""
    if "Nothing to be done" in text:
        return Counter()
    table = re.search(r"^job\s+count\n[-\s]+\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    assert table, text
    rows = (line.split() for line in table.group(1).splitlines())
    return Counter({name: int(n) for name, n in rows if name not in ("all", "total")})
