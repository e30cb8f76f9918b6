"""Try the user's Python files in a process of their own, before the plan imports them.

An import can end its process, hang, print, or take all memory: the plan would go down with it, even
with exit code 0. So another process loads torch once and forks for every file.
"""

from __future__ import annotations

import io
import json
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import scratch_folder
from ntk_conditioning.networks.activations import DualErrors

#: What importing a file and trying activations may take, when torch is there already. Building a
#: network may take as long again: it is as large as the config says.
SECONDS, BYTES = 4.0, 200 * 2**20

#: How many times as long it may take on a machine so busy that processes wait for a processor.
BUSY = 5

_KNOWN: dict[str, Any] = {}  # answers, by the request and what its files contain


class Trial:
    """Answers to requests, from a process that starts with the first and ends with the context.

    Where no trial is ``needed``, every file is taken as sound.
    """

    def __init__(self, *, needed: bool = True) -> None:
        self.needed = needed
        self._server: subprocess.Popen[str] | None = None

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.communicate()
            self._server = None

    def activations(self, file: str) -> dict[str, DualErrors]:
        """Return the errors of duals at infinite width by the names that a file registers.

        Raises `UserError` if the file cannot be imported or an activation is not sound.
        """
        errors: dict[str, Sequence[float]] = self._ask([file], "activations", file=file)
        return {name: DualErrors(*pair) for name, pair in errors.items()}

    def network(self, file: str, function: str) -> None:
        """Check that a file has a function that builds networks; `UserError` if not."""
        self._ask([file], "network", file=file, function=function)

    def trainable(
        self, file: str, function: str, activation: str, *, plugins: Sequence[str], **size: Any
    ) -> bool:
        """Return whether networks normalise batches; `UserError` if they cannot be trained."""
        given = {"file": file, "function": function, "activation": activation, "size": size}
        batches: bool = self._ask([file, *plugins], "trainable", plugins=[*plugins], **given)
        return batches

    def _ask(self, files: Sequence[str], task: str, **given: Any) -> Any:
        if not self.needed:
            return _UNTRIED[task]
        contents = [
            Path(file).read_text(encoding="utf-8", errors="replace")
            for file in files
            if Path(file).is_file()
        ]
        hung, key = json.dumps([files, contents]), json.dumps([task, given, contents])
        if hung not in _KNOWN and key not in _KNOWN:
            with scratch_folder() as folder:
                answer = self._answer(files[0], task, given, folder / "answer")
            # a file that hung once is not given as long for every depth and dataset
            _KNOWN[hung if "late" in answer else key] = answer
        answer = _KNOWN.get(hung) or _KNOWN[key]
        if "problem" in answer:
            raise UserError(answer["problem"])
        return answer["value"]

    def _answer(self, file: str, task: str, given: dict[str, Any], path: Path) -> Any:
        if self._server is None:
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            environment["PYTHONPATH"] = str(Path(__file__).parents[1])
            command = [sys.executable, "-m", "ntk_workflow.trial", str(SECONDS)]
            self._server = subprocess.Popen(
                command,
                env=environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        assert self._server.stdin
        assert self._server.stdout
        print(json.dumps([task, given, str(path)]), file=self._server.stdin, flush=True)
        end = self._server.stdout.readline().strip()
        if not end:
            self.__exit__(None, None, None)
            return {"problem": f"{file}: ends the process that tries it"}
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
        return {"problem": f"{file}: {end}"} | ({"late": True} if end.startswith(LATE) else {})


#: How a problem begins whose file took too long.
LATE = "takes longer than"

#: Counts what a file is given time for: its import, and each network. Forks share it.
_STEPS = mmap.mmap(-1, 1)


class OutputError(Exception):
    """A file prints."""


class _Closed(io.TextIOBase):
    def write(self, text: str) -> int:
        raise OutputError(f"it prints {text[:40]!r}; remove that")


def _activations(file: str) -> dict[str, DualErrors]:
    from ntk_conditioning.duals.soundness import dual_errors, require_sound
    from ntk_conditioning.networks import activations

    before = activations.names()
    activations.load_plugin(file)
    errors = {}
    for name in activations.names()[len(before) :]:
        try:
            require_sound(activations.get(name))
            errors[name] = dual_errors(activations.get(name))
        except UserError as error:
            raise UserError(f"{file}: {error}") from error
    return errors


def _network(file: str, function: str) -> None:
    from ntk_conditioning.networks import own

    own.load(file, function)


def _trainable(
    file: str, function: str, activation: str, plugins: Sequence[str], size: dict[str, Any]
) -> bool:
    from ntk_conditioning.networks import activations, own

    for plugin in plugins:
        activations.load_plugin(plugin)
    size["activation"] = activations.get(activation)
    model, predict = own.load(file, function), size.pop("predict")
    build = model.build

    def build_in_time(**given: Any) -> Any:
        _STEPS[0] += 1
        return build(**given)

    model = replace(model, build=build_in_time)
    own.require_trainable(model, **size)
    return predict and own.normalises_batches(model, **size)


_TASKS: dict[str, Callable[..., Any]] = {
    "activations": _activations,
    "network": _network,
    "trainable": _trainable,
}


#: What a task returns if all is well, as far as the plan's jobs want to know.
_UNTRIED: dict[str, Any] = {"activations": {}, "network": None, "trainable": False}


def _child(task: str, given: dict[str, Any], path: str) -> None:
    """Write the answer to a request, and end."""
    for number in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    sys.stdout = _Closed()
    answer: dict[str, Any] = {}
    try:
        if task != "trainable":
            _limit_memory()
        answer["value"] = _TASKS[task](**given)
        if left := [each for each in threading.enumerate() if each is not threading.main_thread()]:
            # the plan would wait for it, or it might end the plan
            raise UserError(f"{given['file']}: leaves a thread running, {left[0].name}; remove it")
    except UserError as error:
        answer["problem"] = str(error)[:500]
    except BaseException as error:
        answer["problem"] = f"{given['file']}: {type(error).__name__}: {one_line(error)[:200]}"
    Path(path).write_text(json.dumps(answer), encoding="utf-8")
    os._exit(0)  # whatever threads and handlers the file has left


def _limit_memory() -> None:
    import resource

    taken = Path("/proc/self/statm")
    if taken.exists():
        size = int(taken.read_text(encoding="utf-8").split()[5]) * resource.getpagesize() + BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def _end_of(child: int, seconds: float) -> str:
    """Return how a child ended; one that takes too long for a step is killed.

    What counts is the time that it runs or sleeps, not that in which it waits for a processor.
    """
    begin, before, waited, step = time.monotonic(), 0.0, 0.0, 0
    while (took := time.monotonic() - begin) - waited < seconds and took < BUSY * seconds:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            return f"ends the process that imports it, {how}"
        time.sleep(0.01)
        waiting = _waiting(child)
        if _STEPS[0] != step:
            step, begin, before = _STEPS[0], time.monotonic(), waiting
        waited = waiting - before
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    what = " to build and try one network; build it faster, or make it smaller" if step else ""
    return f"{LATE} {seconds:g} s{what}"


def _waiting(process: int) -> float:
    """Return the seconds for which a process has waited for a processor, 0 if nobody knows."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def serve(seconds: float) -> None:
    """Answer requests from stdin, each in a fork."""
    from ntk_conditioning.duals import soundness  # noqa: F401
    from ntk_conditioning.networks import own  # noqa: F401

    for line in sys.stdin:
        task, given, path = json.loads(line)
        _STEPS[0] = 0
        if (child := os.fork()) == 0:
            _child(task, given, path)
        print(_end_of(child, seconds), flush=True)


if __name__ == "__main__":
    serve(float(sys.argv[1]))
