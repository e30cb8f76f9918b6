"""Peak memory of a program's calls, each in a fork of a process that has imported the program."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FORKS = r"""
import importlib, json, os, re, sys
sys.path[:0] = ["src", "scripts"]
program = importlib.import_module(sys.argv[1])
for arguments in json.loads(sys.argv[2]):
    if os.fork():
        assert os.wait()[1] == 0
    else:
        assert program.main(arguments) == 0
        print(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
        sys.exit(0)
"""


def peaks(program: str, *calls: Sequence[str]) -> list[int]:
    """Return the peaks of a program's calls, in bytes."""
    # of several threads each may hold what it has read, or not
    environment = os.environ | {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", FORKS, program, json.dumps(calls)]
    options = {"cwd": ROOT, "env": environment, "stdout": subprocess.PIPE}
    done = subprocess.run(command, check=True, **options)
    return [1024 * int(line) for line in done.stdout.splitlines()]
