"""Run one figure's notebook: keep the executed notebook, and see that the figure's files exist."""

import logging
import re
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
import papermill
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from traitlets.config import Config

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import atomic, require_file
from ntk_workflow.cli import Parser, logger, named_values, run_main

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
log = logger(__file__)


class NotebookError(UserError):
    """The file is no notebook, or the parameters are not the notebook's."""


class OwnKernel(AsyncKernelManager):  # type: ignore[misc]
    """This Python; a kernel that the user installed as python3 for another Python would win."""

    def __init__(self, **traits: Any) -> None:
        super().__init__(kernel_spec_manager=KernelSpecManager(kernel_dirs=[]), **traits)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("notebook", type=Path, help="notebook to run (.ipynb)")
    parser.add_argument("--parameters", nargs="+", required=True, metavar="NAME=VALUE", help="all")
    parser.add_argument("--output", type=Path, required=True, help="executed notebook to write")
    parser.add_argument("--failed", type=Path, required=True, help="where a failed one is kept")
    parser.add_argument("--outputs", type=Path, nargs="+", default=[], help="files it must write")
    args = parser.parse_args(argv)

    parameters = named_values(args.parameters, option="--parameters")
    require_parameters(args.notebook, parameters)
    for path in (args.output, *args.outputs):  # an earlier run's files must not pass for this one's
        path.unlink(missing_ok=True)
    problem = execute(args.notebook, parameters, working_copy=args.failed)
    if not problem and (missing := [str(path) for path in args.outputs if not path.is_file()]):
        problem = f"it ran, but did not write {', '.join(missing)}"
    if problem:
        for path in args.outputs:
            path.unlink(missing_ok=True)
        log.error("%s: %s; see %s", args.notebook, problem, args.failed)
        return 1
    with atomic(args.output) as temporary:
        nbformat.write(reproducible(nbformat.read(args.failed, as_version=4)), temporary)
    args.failed.unlink()
    return 0


def require_parameters(notebook: Path, parameters: Mapping[str, Any]) -> None:
    """Raise `NotebookError` unless exactly the notebook's parameters are given."""
    require_file(notebook)
    try:
        expected = set(papermill.inspect_notebook(notebook))
    except (ValueError, nbformat.ValidationError) as error:
        raise NotebookError(f"{notebook}: not a notebook: {one_line(error)}") from None
    given = set(parameters)
    if given != expected:
        sets = (given - expected, expected - given, expected)
        words = (", ".join(sorted(names)) or "none" for names in sets)
        problem = "unknown parameters: {}; missing: {}; it takes: {}".format(*words)
        raise NotebookError(f"{notebook}: {problem}")


def execute(notebook: Path, parameters: Mapping[str, Any], *, working_copy: Path) -> str | None:
    """Return what went wrong in which cell, or None; ``working_copy`` holds what ran so far."""
    working_copy.parent.mkdir(parents=True, exist_ok=True)
    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # what it says is said below
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    try:
        # Its libraries warn about themselves; what a cell warns of is kept in the notebook.
        with warnings.catch_warnings(action="ignore"), folder as name:
            papermill.execute_notebook(notebook, working_copy, dict(parameters), **options(name))
        return None
    except papermill.PapermillExecutionError as error:
        problem = f"{error.ename}: {relative(' '.join(error.evalue.split()))}"
    except DeadKernelError:
        problem = "the kernel died, perhaps for lack of memory"
    cells = nbformat.read(working_copy, as_version=4).cells
    started = [cell for cell in cells if cell.metadata.get("papermill", {}).get("start_time")]
    return f"cell {started[-1].id!r}: {problem}"


def options(folder: str) -> dict[str, Any]:
    """Return how papermill runs the kernel, whose files are in ``folder``.

    Local sockets need no ports, for which jobs on one machine would compete. How printed text is
    cut into messages is a matter of timing, hence the coalescing.
    """
    kernel = {"transport": "ipc", "connection_file": f"{folder}/kernel.json"}
    return {
        "kernel_manager_class": OwnKernel,
        "config": Config(KernelManager=kernel),
        "extra_arguments": [f"--ipython-dir={folder}", "--matplotlib=inline", "--log-level=50"],
        "kernel_name": KERNEL["name"],
        "coalesce_streams": True,
        "start_timeout": 600,  # seconds; 60 are not enough on a busy machine
        "progress_bar": sys.stderr.isatty(),
    }


def reproducible(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return an executed notebook without times, versions, process numbers and absolute paths."""
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": KERNEL["language"]}}
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
        cell.id = "injected-parameters" if "injected-parameters" in tags else cell.id
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                output.text = relative(output.text)
    return notebook


def relative(text: str) -> str:
    """Return a message with "cell" for a cell's temporary file, and without absolute folders."""
    text = re.sub(r"(\S*ipykernel_\d+/)?\b\d+\.py\b", "cell", text)
    # the environment first: it may lie inside the working folder
    return text.replace(f"{sys.prefix}/", "").replace(f"{Path.cwd()}/", "")


if __name__ == "__main__":
    sys.exit(main())
