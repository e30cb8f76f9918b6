"""A copy of the workflow in a temporary folder, in which Snakemake really runs."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
FILES = "CITATION.cff LICENSE Makefile README.md Snakefile config.yaml datasets.yaml pyproject.toml"
FOLDERS = "config docs/examples envs notebooks papers profiles resources rules schemas scripts src"


class Clone:
    """A copy of the workflow, or a folder that is there; `plan` asks what `run` would run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if folder.exists():
            return
        folder.mkdir()
        # what Python has compiled is taken along, but not what another process is just writing
        ignore = shutil.ignore_patterns("*.pyc.*", "*.egg-info")
        for name in (*FILES.split(), "slurm"):  # a link
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
        for name in FOLDERS.split():
            shutil.copytree(ROOT / name, folder / name, ignore=ignore, symlinks=True)

    def copy(self, folder: Path) -> "Clone":
        """Return a copy of it with what has been run in it; times are kept."""
        return Clone(shutil.copytree(self.folder, folder, symlinks=True))

    def where(self) -> dict[str, Any]:
        """Return where a command is run, as options of `subprocess`."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # by those of `make test`, a test's own make would say which folder it enters
        unset = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
        environment = {k: v for k, v in os.environ.items() if k not in unset} | {"PATH": path}
        return {"cwd": self.folder, "env": environment, "stdin": subprocess.DEVNULL}

    def run(self, *arguments: str, fails: bool = False) -> str:
        """Return what Snakemake says; the test fails if it fails and should not, or the reverse."""
        command = [sys.executable, "-m", "snakemake", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, **self.where())
        if bool(done.returncode) != fails:
            output = f"{done.stdout[-6000:]}\n{done.stderr[-9000:]}"
            pytest.fail(f"snakemake {' '.join(arguments)}\n{output}")
        return done.stdout + done.stderr

    def start(self, log: Path, *command: str) -> subprocess.Popen[bytes]:
        """Start a command beside the test, in a session of its own; Ctrl-C reaches it."""
        with log.open("wb") as out:
            session = {"stdout": out, "stderr": subprocess.STDOUT, "start_new_session": True}
            # a shell lets what it starts in the background ignore Ctrl-C
            session["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
            return subprocess.Popen(command, **self.where(), **session)

    def plan(self, *arguments: str) -> Counter[str]:
        """Return how often each rule would run."""
        return job_counts(self.run("-n", *arguments))

    def planned_outputs(self, *arguments: str) -> set[str]:
        lines = re.findall(r"^\s+output: (.*)$", self.run("-n", *arguments), re.M)
        return {name for line in lines for name in line.split(", ")}

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text()
        assert old in text, f"{file} has no {old!r}"
        path.write_text(text.replace(old, new, 1))

    def table(self, path: str | Path) -> pd.DataFrame:
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
