"""Peers as processes that wait for their turn, compiled and warm, in environments of their own.

An environment is made under .peers/ when it is first needed, from peers/NAME.txt.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import site
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
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
        python = Path(sys.executable)
        if self.environment in settings.peers:
            python = settings.peers[self.environment]
        elif self.environment is not None:
            python = environment_python(self.environment, make=not settings.quick)
        command = [str(python), str(PROGRAMS / self.program), str(problem), self.mode]
        return Worker(command, threads=settings.threads)


STRUCTURED = Peer(
    "neural-tangents, structured derivatives",
    "peer_neural_tangents.py",
    "STRUCTURED_DERIVATIVES",
    "jax",
)
PEERS: Mapping[str, Peer] = {
    "torch_func": Peer("`torch.func`, vmap(jacrev)", "peer_torch_func.py", "jacobian"),
    "torch_func_products": Peer("`torch.func`, jvp of vjp", "peer_torch_func.py", "products"),
    "neural_tangents": STRUCTURED,
    "neural_tangents_products": replace(
        STRUCTURED, label="neural-tangents, NTK-vector products", mode="NTK_VECTOR_PRODUCTS"
    ),
    "nngeometry": Peer("nngeometry, `FMatDense`", "peer_nngeometry.py", "", "nngeometry"),
    "modules_torch_func": Peer(
        "`torch.func`, vmap(jacrev) of 64 samples", "peer_torch_func.py", "chunks"
    ),
    "modules_neural_tangents": STRUCTURED,
    "modules_nngeometry": Peer(
        "nngeometry, `FMatDense`, one batch", "peer_nngeometry.py", "", "nngeometry"
    ),
}


def environment_python(name: str, *, make: bool) -> Path:
    """Return the Python of an environment, which is made now if it is missing or outdated.

    Raises:
        PeerUnavailableError: if there is none and it cannot or may not be made.
    """
    folder = FOLDER / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    installed = folder / ".installed"
    wanted = (PROGRAMS / f"{name}.txt").read_text(encoding="utf-8")
    if not (installed.exists() and installed.read_text(encoding="utf-8") == wanted):
        if not make:
            raise PeerUnavailableError(f"no environment was given (--peer {name}=PYTHON)")
        log.info("installing %s into %s", name, folder)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _make_environment(name, folder, python)
        except subprocess.CalledProcessError as error:
            reason = error.stderr.strip().splitlines()[-1]
            raise PeerUnavailableError(
                f"its environment cannot be made ({reason}); give one with --peer {name}=PYTHON"
            ) from None
        installed.write_text(wanted, encoding="utf-8")
    return python


def _make_environment(name: str, folder: Path, python: Path) -> None:
    venv.create(folder, with_pip=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if name == "nngeometry":  # finds this project's torch, rather than installing another one
        (packages,) = folder.glob("lib/python*/site-packages")
        text = "\n".join(site.getsitepackages())
        (packages / "project.pth").write_text(text + "\n", encoding="utf-8")
        install.append("--no-deps")
    install += ["-r", PROGRAMS / f"{name}.txt"]
    subprocess.run(install, check=True, stderr=subprocess.PIPE, text=True)


class Worker:
    """A peer's process. A context: on leaving, the process is gone."""

    def __init__(self, command: list[str], *, threads: int) -> None:
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **dict.fromkeys(names, str(threads))},
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
        """Return the kernel (n, n) of the last call."""
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
