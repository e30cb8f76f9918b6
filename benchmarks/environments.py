"""Environments of the peers: made under .peers/ when they are first needed."""

import logging
import os
import shutil
import site
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ntk_conditioning.errors import UserError

REQUIREMENTS = Path(__file__).parent / "peers"
FOLDER = Path(__file__).parents[1] / ".peers"
log = logging.getLogger("benchmarks")


class PeerUnavailableError(UserError):
    """A peer cannot be run here; the others can."""


@dataclass(frozen=True)
class Environment:
    """Packages pinned in peers/NAME.txt.

    One that is ``beside`` this project's gets these without their dependencies, and finds the rest
    among the project's own packages.
    """

    name: str
    beside: bool = False

    def python(self, given: Mapping[str, Path], *, make: bool = True) -> Path:
        """Return the environment's Python, of the ``given`` one or of one made now.

        Raises:
            PeerUnavailableError: if there is none and it cannot or may not be made.
        """
        if self.name in given:
            return given[self.name]
        folder = FOLDER / self.name
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        complete = folder / ".installed"
        wanted = (REQUIREMENTS / f"{self.name}.txt").read_text(encoding="utf-8")
        if not (complete.exists() and complete.read_text(encoding="utf-8") == wanted):
            if not make:
                raise PeerUnavailableError(f"no environment was given (--peer {self.name}=PYTHON)")
            self._make(folder, python)
            complete.write_text(wanted, encoding="utf-8")
        return python

    def _make(self, folder: Path, python: Path) -> None:
        log.info("installing %s into %s", self.name, folder)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            venv.create(folder, with_pip=True)
            if self.beside:
                (packages,) = folder.glob("lib/python*/site-packages")
                text = "\n".join(site.getsitepackages())
                (packages / "project.pth").write_text(text + "\n", encoding="utf-8")
            install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            install += ["--no-deps"] if self.beside else []
            install += ["-r", REQUIREMENTS / f"{self.name}.txt"]
            subprocess.run(install, check=True, stderr=subprocess.PIPE, text=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            lines = str(getattr(error, "stderr", None) or error).strip().splitlines()
            reason = next((line for line in lines if line.startswith("ERROR")), lines[-1])
            raise PeerUnavailableError(
                f"its environment cannot be made with Python {sys.version.split()[0]} ({reason}); "
                f"give one with --peer {self.name}=PYTHON"
            ) from None
