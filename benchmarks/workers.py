"""Peers as processes that stand by: compiled and warm, and idle until it is their turn."""

from __future__ import annotations

import json
import os
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

from benchmarks.environments import Environment, PeerUnavailableError
from benchmarks.settings import Settings

ANSWER = "answer: "  # what libraries print is none, see peers/worker.py
PROGRAMS = Path(__file__).parent / "peers"
JAX = Environment("jax")
NNGEOMETRY = Environment("nngeometry", beside=True)


@dataclass(frozen=True)
class Peer:
    """A program of peers/ and what it is asked for; without environment it runs in ours."""

    label: str
    program: str
    mode: str = ""
    environment: Environment | None = None

    def start(self, problem: Path, settings: Settings) -> Worker:
        """Return the peer, warmed up on a problem.

        Raises:
            PeerUnavailableError: if it cannot be run.
        """
        python = Path(sys.executable)
        if self.environment is not None:
            python = self.environment.python(settings.peers, make=not settings.quick)
        command = [str(python), str(PROGRAMS / self.program), str(problem), self.mode]
        return Worker(command, threads=settings.threads)


PEERS: Mapping[str, Peer] = {
    "torch_func": Peer("`torch.func`, vmap(jacrev)", "peer_torch_func.py", "jacobian"),
    "torch_func_products": Peer("`torch.func`, jvp of vjp", "peer_torch_func.py", "products"),
    "neural_tangents": Peer(
        "neural-tangents, structured derivatives",
        "peer_neural_tangents.py",
        "STRUCTURED_DERIVATIVES",
        JAX,
    ),
    "neural_tangents_products": Peer(
        "neural-tangents, NTK-vector products",
        "peer_neural_tangents.py",
        "NTK_VECTOR_PRODUCTS",
        JAX,
    ),
    "nngeometry": Peer("nngeometry, `FMatDense`", "peer_nngeometry.py", "", NNGEOMETRY),
    "modules_torch_func": Peer(
        "`torch.func`, vmap(jacrev) of 64 samples", "peer_modules_torch_func.py"
    ),
    "modules_neural_tangents": Peer(
        "neural-tangents, structured derivatives",
        "peer_modules_neural_tangents.py",
        environment=JAX,
    ),
    "modules_nngeometry": Peer(
        "nngeometry, `FMatDense`, one batch", "peer_modules_nngeometry.py", environment=NNGEOMETRY
    ),
}


class Worker:
    """A peer's process. A context: on leaving, the process is gone."""

    def __init__(self, command: list[str], *, threads: int) -> None:
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        # Not a pipe: one that nobody reads would fill up.
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  close() does it
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, **dict.fromkeys(names, str(threads))},
                text=True,
                bufsize=1,
            )
        except OSError as error:
            self._errors.close()
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
        self._errors.close()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and _answer says why
            self._process.stdin.write(json.dumps(request) + "\n")
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                answer: dict[str, Any] = json.loads(line.removeprefix(ANSWER))
                return answer
        code = self._process.wait()
        self._errors.seek(0)
        last = (self._errors.read().strip().splitlines() or ["no message"])[-1]
        raise PeerUnavailableError(f"it ended with code {code}: {last}")
