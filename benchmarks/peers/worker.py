"""The part that the peers' programs share: answer "run" with seconds, "save" with the result.

A program runs in its peer's environment, so this needs NumPy only. It reads the problem, makes the
kernel once, which compiles and warms up, and then speaks JSON, one line for each line it is sent.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

# As in benchmarks/timing.py, whose rule of two calls in a row is followed here.
AGAIN_BELOW = 1.0

ANSWER = "answer: "


def load(path: str) -> tuple[np.ndarray, list[np.ndarray], list[float]]:
    """Return data (n, d), weights (out, in) and the factors after the hidden layers."""
    with np.load(path) as file:
        count = sum(name.startswith("weight_") for name in file.files)
        weights = [file[f"weight_{k}"] for k in range(1, count + 1)]
        return file["x"], weights, file["scales"].tolist()


def threads() -> int:
    """Return the threads that a peer may use."""
    return int(os.environ["OMP_NUM_THREADS"])


def serve(kernel: Callable[[], Any], packages: list[str]) -> None:
    """Answer requests until the input ends; ``kernel`` returns when its result is complete."""

    def answer(**content: Any) -> None:
        # Marked, and on a line of its own: libraries print as well.
        print(f"\n{ANSWER}{json.dumps(content)}", flush=True)

    result = kernel()
    answer(versions={name: version(name) for name in packages})
    for line in sys.stdin:
        request = json.loads(line)
        if "save" in request:
            np.save(request["save"], np.asarray(result))
            answer(saved=request["save"])
        else:
            for _ in range(2):
                del result
                start = time.perf_counter()
                result = kernel()
                seconds = time.perf_counter() - start
                if seconds >= AGAIN_BELOW:
                    break
            answer(seconds=seconds)
