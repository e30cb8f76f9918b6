"""Peak memory of one call, in a process of its own: `python -m benchmarks.memory TASK JSON`.

It is the resident set of the process, as Linux counts it: the peak (VmHWM) is reset just before the
call, after a small call has loaded libraries and started threads. "Growth" is the peak minus what
was resident before. Elsewhere than on Linux nothing is measured.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STATUS = Path("/proc/self/status")
RESET_PEAK = "5"  # to /proc/self/clear_refs, see proc(5)


@dataclass(frozen=True)
class Peak:
    """Bytes: ``growth`` during the call, and the ``process`` at its peak, all included.

    The call took ``seconds``.
    """

    growth: int
    process: int
    seconds: float


def peak(task: str, *, threads: int, **arguments: Any) -> Peak | None:
    """Return the peak of one of the `TASKS`, None where the system does not tell it."""
    if not STATUS.exists():
        return None
    command = [sys.executable, "-m", "benchmarks.memory", task, str(threads), json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return Peak(**json.loads(done.stdout))


def _ntk(**problem: Any) -> Callable[[], object]:
    from benchmarks.problem import Problem
    from ntk_conditioning.kernels import empirical

    def prepared(**arguments: Any) -> Callable[[], object]:
        asked = Problem(**arguments)
        mlp, x = asked.network(), asked.data()
        return lambda: empirical.ntk(mlp, x)

    prepared(**{**problem, "n": 64})()
    return prepared(**problem)


def _module_ntk(**problem: Any) -> Callable[[], object]:
    from benchmarks.module_problem import ModuleProblem
    from ntk_conditioning.kernels.modules import ntk

    def prepared(**arguments: Any) -> Callable[[], object]:
        asked = ModuleProblem(**arguments)
        model, x = asked.network(), asked.data()
        return lambda: ntk(model, x)

    prepared(**{**problem, "n": 4})()
    return prepared(**problem)


def _min_angle(**problem: Any) -> Callable[[], object]:
    from benchmarks.problem import Problem
    from ntk_conditioning.kernels import empirical

    def prepared(**arguments: Any) -> Callable[[], object]:
        asked = Problem(**arguments)
        mlp, x = asked.network(), asked.data()
        return lambda: empirical.min_angle(mlp, x)

    prepared(**{**problem, "n": 64})()
    return prepared(**problem)


def _conditioning(method: str, kernel: str) -> Callable[[], object]:
    import numpy as np

    from benchmarks.solvers import in_place

    k = np.load(kernel)
    solve = in_place(method)
    solve(k[:64, :64].copy())
    return lambda: solve(k)


TASKS: dict[str, Callable[..., Callable[[], object]]] = {
    "ntk": _ntk,
    "module_ntk": _module_ntk,
    "min_angle": _min_angle,
    "conditioning": _conditioning,
}


def resident(field: str) -> int:
    """Return VmRSS or VmHWM of this process in bytes."""
    for line in STATUS.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def main() -> int:
    from benchmarks.settings import hold_process

    task, threads, arguments = sys.argv[1:]
    hold_process(int(threads))
    call = TASKS[task](**json.loads(arguments))
    Path("/proc/self/clear_refs").write_text(RESET_PEAK, encoding="utf-8")
    before = resident("VmRSS")
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    top = resident("VmHWM")
    del result
    print(json.dumps({"growth": top - before, "process": top, "seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
