"""Peers as processes that wait for their turn, compiled and warm, with packages of their own.

The packages of peers/NAME.txt are installed into .peers/NAME when they are first needed.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.settings import Settings
from ntk_conditioning.errors import UserError

ANSWER = "answer: "  # see peers/worker.py; other lines are printed by libraries
PROGRAMS = Path(__file__).parent / "peers"
FOLDER = Path(__file__).parents[1] / ".peers"
log = logging.getLogger("benchmarks")


class PeerUnavailableError(UserError):
    """A peer cannot be run here; the others can."""


@dataclass(frozen=True)
class Peer:
    """A program of peers/, its mode and its environment; without one it runs in ours."""

    label: str
    program: str
    mode: str = ""
    environment: str | None = None

    def start(self, problem: Path, settings: Settings) -> Worker:
        """Return the peer, warmed up on a problem.

        Raises:
            PeerUnavailableError: if it cannot be run.
        """
        python, variables = sys.executable, {}
        if self.environment in settings.peers:
            python = settings.peers[self.environment]
        elif self.environment is not None:
            packages = installed_packages(self.environment, install=not settings.quick)
            variables["PYTHONPATH"] = str(packages)
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        variables |= dict.fromkeys(names, str(settings.threads))
        return Worker([python, PROGRAMS / self.program, problem, self.mode], variables)


STRUCTURED = Peer(
    "neural-tangents, structured derivatives", "peer_neural_tangents.py", environment="jax"
)
PEERS: Mapping[str, Peer] = {
    "torch_func": Peer("`torch.func`, vmap(jacrev)", "peer_torch_func.py", "all"),
    "neural_tangents": STRUCTURED,
    "nngeometry": Peer("nngeometry, `FMatDense`", "peer_nngeometry.py", "", "nngeometry"),
    "modules_torch_func": Peer(
        "`torch.func`, vmap(jacrev) of 64 samples", "peer_torch_func.py", "64"
    ),
    "modules_neural_tangents": STRUCTURED,
    "modules_nngeometry": Peer(
        "nngeometry, `FMatDense`, one batch", "peer_nngeometry.py", "", "nngeometry"
    ),
    "products_torch_func": Peer("`torch.func`, vjp and jvp", "peer_products.py", "torch_func"),
    "products_curvlinops": Peer(
        "curvlinops, J and Jᵀ", "peer_products.py", "curvlinops", "curvlinops"
    ),
}


def installed_packages(name: str, *, install: bool) -> Path:
    """Return the folder with a peer's packages, installed now if they are missing or outdated.

    All are pinned, but for this project's torch, which nngeometry shares.

    Raises:
        PeerUnavailableError: if there are none and they cannot or may not be installed.
    """
    folder, requirements = FOLDER / name, PROGRAMS / f"{name}.txt"
    installed, wanted = folder / ".installed", requirements.read_text(encoding="utf-8")
    if installed.exists() and installed.read_text(encoding="utf-8") == wanted:
        return folder
    if not install:
        raise PeerUnavailableError(f"no environment was given (--peer {name}=PYTHON)")
    log.info("installing %s into %s", name, folder)
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--target", str(folder), "-r", str(requirements)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise PeerUnavailableError(
            f"it cannot be installed ({done.stderr.strip().splitlines()[-1]}); "
            f"give an environment with --peer {name}=PYTHON"
        )
    installed.write_text(wanted, encoding="utf-8")
    return folder


class Worker:
    """A peer's process. A context: on leaving, the process is gone."""

    def __init__(self, command: list[str | Path], variables: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                text=True,
                bufsize=1,
            )
        except OSError as error:
            raise PeerUnavailableError(f"{command[0]} cannot be run: {error.strerror}") from None
        try:
            self.versions: dict[str, str] = self._answer()["versions"]
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def seconds(self) -> float:
        """Return the seconds of one call, see `timing.stopwatch`."""
        return float(self._ask(run=True)["seconds"])

    def result(self) -> NDArray[np.floating]:
        """Return the result of the last call, of any shape."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.npy"
            self._ask(save=str(path))
            kernel: NDArray[np.floating] = np.load(path)
            return kernel

    def close(self) -> None:
        """End the process; it has nothing to finish."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and _answer says why
            self._process.stdin.write(json.dumps(request) + "\n")
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        message = "no message"
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                answer: dict[str, Any] = json.loads(line.removeprefix(ANSWER))
                return answer
            message = line.strip() or message
        raise PeerUnavailableError(f"it ended with code {self._process.wait()}: {message}")
