"""Snakemake without its start: a process that has imported it forks for each call.

Every child is a `python -m snakemake` with its own arguments, folder, environment and output. The
packages of the workflow are not imported before the fork: a child imports those of its checkout.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

Done = subprocess.CompletedProcess[str]


def run(arguments: Sequence[str], folder: Path, environment: dict[str, str]) -> Done:
    """Run Snakemake, like `subprocess.run`."""
    with tempfile.TemporaryDirectory() as scratch:
        files = [Path(scratch, name) for name in ("stdout", "stderr")]
        server = _server()
        call = (arguments, str(folder), environment, *map(str, files))
        print(json.dumps(call), file=server.stdin, flush=True)
        return Done(arguments, int(server.stdout.readline()), *(path.read_text() for path in files))


@cache
def _server() -> subprocess.Popen[str]:
    """Return the server of this test process, with which it ends."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen([sys.executable, __file__], **pipes)
    atexit.register(server.__exit__, None, None, None)  # closes its input, and waits for its end
    return server


def serve() -> None:
    import jsonschema  # noqa: F401  needed by the workflow
    import snakemake.cli

    for line in sys.stdin:
        if (child := os.fork()) == 0:
            arguments, folder, environment, *files = json.loads(line)
            for number, file in enumerate((os.devnull, *files)):
                os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            sys.path[0] = folder  # as of `python -m`
            sys.argv = [f"{Path(snakemake.__file__).parent}/__main__.py", *arguments]
            snakemake.cli.main()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
