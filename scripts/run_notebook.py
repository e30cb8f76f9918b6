"""Run one figure's notebook: keep the executed notebook, and see that the figure's files exist."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
import papermill
from cli import Parser, json_object, logger, run_main
from nbclient.exceptions import DeadKernelError
from traitlets.config import Config

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import atomic, require_file

KERNEL = "python3"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": KERNEL},
    "language_info": {"name": "python"},
}
log = logger(__file__)


class NotebookError(UserError):
    """The file is no notebook, or the parameters are not the notebook's."""


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("notebook", type=Path, help="notebook to run (.ipynb)")
    parser.add_argument(
        "--parameters", type=json_object, required=True, help="all its parameters, as JSON"
    )
    parser.add_argument("--output", type=Path, required=True, help="executed notebook to write")
    parser.add_argument("--failed", type=Path, required=True, help="where a failed one is kept")
    parser.add_argument(
        "--outputs", type=Path, nargs="+", default=[], help="files that the notebook writes"
    )
    args = parser.parse_args(argv)

    require_parameters(args.notebook, args.parameters)
    remove([args.output, *args.outputs])  # files of an earlier run must not pass for this one's
    problem = execute(args.notebook, args.parameters, working_copy=args.failed)
    if not problem and (missing := [str(path) for path in args.outputs if not path.is_file()]):
        problem = f"it ran, but did not write {', '.join(missing)}"
    if problem:
        remove([args.output, *args.outputs])
        log.error("%s: %s; see %s", args.notebook, problem, args.failed)
        return 1
    with atomic(args.output) as temporary:
        nbformat.write(reproducible(nbformat.read(args.failed, as_version=4)), temporary)
    remove([args.failed])
    return 0


def require_parameters(notebook: Path, parameters: Mapping[str, Any]) -> None:
    """Raise `NotebookError` unless exactly the notebook's parameters are given."""
    require_file(notebook)
    try:
        expected = set(papermill.inspect_notebook(notebook))
    except (ValueError, nbformat.ValidationError) as error:
        raise NotebookError(f"{notebook}: not a notebook: {one_line(error)}") from None
    faults = {"unknown": set(parameters) - expected, "missing": expected - set(parameters)}
    told = [f"{fault}: {', '.join(sorted(names))}" for fault, names in faults.items() if names]
    if told:
        takes = ", ".join(sorted(expected)) or "none"
        raise NotebookError(f"{notebook}: parameters {'; '.join(told)} (it takes {takes})")


def execute(notebook: Path, parameters: Mapping[str, Any], *, working_copy: Path) -> str | None:
    """Return what went wrong in which cell, or None; ``working_copy`` holds what ran so far."""
    working_copy.parent.mkdir(parents=True, exist_ok=True)
    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # what it says is said below
    try:
        # Its libraries warn about themselves; what a cell warns of is kept in the notebook.
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            papermill.execute_notebook(
                notebook,
                working_copy,
                parameters=dict(parameters),
                kernel_name=KERNEL,
                progress_bar=sys.stderr.isatty(),
                coalesce_streams=True,  # how printed text is cut into messages is mere timing
                **kernel_options(folder),
            )
    except papermill.PapermillExecutionError as error:
        what = f"{error.ename}: {relative(' '.join(error.evalue.split()))}"
    except DeadKernelError:
        what = "the kernel died, perhaps for lack of memory"
    else:
        return None
    cells = nbformat.read(working_copy, as_version=4).cells
    started = [cell for cell in cells if cell.metadata.get("papermill", {}).get("start_time")]
    return f"cell {started[-1].id!r}: {what}"


def kernel_options(folder: str) -> dict[str, Any]:
    """Return what makes the kernel this Python, with its own files in ``folder`` and no other's.

    A kernel named python3 that the user once installed for another Python would win otherwise.
    Local sockets need no ports, for which jobs on one machine would compete.
    """
    kernel = {"transport": "ipc", "connection_file": f"{folder}/kernel.json"}
    return {
        "config": Config(KernelManager=kernel, KernelSpecManager={"kernel_dirs": []}),
        "extra_arguments": [f"--ipython-dir={folder}", "--matplotlib=inline", "--log-level=50"],
    }


def reproducible(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return an executed notebook without times, versions, process numbers and absolute paths."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if "injected-parameters" in tags:
            cell.id = "injected-parameters"
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                output.text = relative(output.text)
    return notebook


def relative(text: str) -> str:
    """Return a message with "cell" for a cell's temporary file, and without absolute folders."""
    text = re.sub(r"(\S*ipykernel_\d+/)?\b\d+\.py\b", "cell", text)
    return text.replace(f"{Path.cwd()}{os.sep}", "").replace(f"{sys.prefix}{os.sep}", "")


def remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
