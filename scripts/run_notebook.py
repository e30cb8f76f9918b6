"""Run one figure's notebook: keep the executed notebook, and see that the figure's files exist."""

import logging
import multiprocessing
import re
import sys
import time
import warnings
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import nbformat
import papermill
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat.v4 import new_output
from papermill.engines import Engine, papermill_engines

from ntk_conditioning import files
from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import FullDiskError, atomic, require_file, room_for
from ntk_workflow.cli import Parser, logger, positive_number, run_main
from ntk_workflow.named_values import named_values

INLINE = "module://matplotlib_inline.backend_inline"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
MALFORMED = (ValueError, AttributeError, TypeError, LookupError, RecursionError)  # such as a list
log = logger(__file__)


class NotebookError(UserError):
    """The file is no notebook, or the parameters are not the notebook's."""


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("notebook", type=Path, help="notebook to run (.ipynb)")
    parser.add_argument("--parameters", nargs="+", required=True, metavar="NAME=VALUE", help="all")
    parser.add_argument("--output", type=Path, required=True, help="executed notebook to write")
    parser.add_argument("--failed", type=Path, required=True, help="where a failed one is kept")
    parser.add_argument("--outputs", type=Path, nargs="+", default=[], help="files it must write")
    minutes = "what the job may take: its cells take nine tenths of that at most (default: 20)"
    parser.add_argument("--minutes", type=positive_number, default=20, help=minutes)
    args = parser.parse_args(argv)

    parameters = named_values(args.parameters, option="--parameters")
    require_parameters(args.notebook, parameters)
    for path in (args.output, *args.outputs):  # an earlier run's files must not pass for this one's
        path.unlink(missing_ok=True)
    try:
        limit = 0.9 * args.minutes
        problem = execute(args.notebook, parameters, working_copy=args.failed, minutes=limit)
        if not problem and (missing := [str(path) for path in args.outputs if not path.is_file()]):
            problem = f"it ran, but did not write {', '.join(missing)}"
        if problem:
            for path in args.outputs:
                path.unlink(missing_ok=True)
            log.error("%s: %s; see %s", args.notebook, problem, args.failed)
            return 1
        with atomic(args.output) as temporary:
            nbformat.write(reproducible(nbformat.read(args.failed, as_version=4)), temporary)
    except FullDiskError:
        for path in (args.failed, *args.outputs):  # they take room, and tell nothing
            path.unlink(missing_ok=True)
        raise
    args.failed.unlink()
    files.written.extend(args.outputs)
    return 0


def require_parameters(notebook: Path, parameters: Mapping[str, Any]) -> None:
    """Raise `NotebookError` unless exactly the notebook's parameters are given."""
    require_file(notebook)
    try:
        expected = set(papermill.inspect_notebook(notebook))
    except (*MALFORMED, nbformat.ValidationError) as error:
        raise NotebookError(f"{notebook}: not a notebook: {one_line(error)}") from None
    given = set(parameters)
    if given != expected:
        sets = (given - expected, expected - given, expected)
        words = (", ".join(sorted(names)) or "none" for names in sets)
        problem = "unknown parameters: {}; missing: {}; it takes: {}".format(*words)
        raise NotebookError(f"{notebook}: {problem}")


def execute(
    notebook: Path, parameters: Mapping[str, Any], *, working_copy: Path, minutes: float
) -> str | None:
    """Return what went wrong in which cell, or None; ``working_copy`` holds what ran so far."""
    working_copy.parent.mkdir(parents=True, exist_ok=True)
    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # what it says is said below
    options = {"engine_name": "fork", "kernel_name": KERNEL["name"], "seconds": 60 * minutes}
    # the warnings are its libraries' own; a cell's are kept
    try:
        with room_for(working_copy), warnings.catch_warnings(action="ignore"):
            bar = sys.stderr.isatty()
            papermill.execute_notebook(
                notebook, working_copy, dict(parameters), **options, progress_bar=bar
            )
        return None
    except papermill.PapermillExecutionError as error:
        problem = f"{error.ename}: {relative(' '.join(error.evalue.split()))}"
    except DeadKernelError:
        problem = "the kernel died, perhaps for lack of memory"
    except CellTimeoutError:
        problem = f"still running after {minutes:g} minutes; if that is right, give more --minutes"
        problem += ", in the workflow by --set-resources render_figure:runtime=MINUTES"
    cells = nbformat.read(working_copy, as_version=4).cells
    started = [cell for cell in cells if cell.metadata.get("papermill", {}).get("start_time")]
    return f"cell {started[-1].id!r}: {problem}"


class ForkEngine(Engine):  # type: ignore[misc]
    """Papermill's engine: a fork of this process runs the cells, at no cost of a new process.

    If the fork dies, for lack of memory say, this process reports it.
    """

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: Any, kernel_name: str, *, seconds: float, **options: Any
    ) -> None:
        deadline = time.monotonic() + seconds
        context = multiprocessing.get_context("fork")
        here, there = context.Pipe()
        # The kernel closes its copy of `here`, or it would wait for ever if this process is killed.
        kernel = context.Process(target=run_cells, args=(there, here), daemon=True)
        kernel.start()
        there.close()
        try:
            cls._execute_cells(nb_man, here, deadline)
        finally:
            here.close()
            kernel.kill()
            kernel.join()

    @staticmethod
    def _execute_cells(nb_man: Any, kernel: Connection, deadline: float) -> None:
        for index, cell in enumerate(nb_man.nb.cells):
            nb_man.cell_start(cell, index)
            if cell.cell_type == "code":
                try:
                    kernel.send(cell.source)
                    ended = kernel.poll(max(0, deadline - time.monotonic()))
                    if ended:
                        cell.execution_count, cell.outputs = kernel.recv()
                except (EOFError, OSError):
                    raise DeadKernelError("the kernel died") from None
                if not ended:
                    raise CellTimeoutError("the cell does not end")
                if any(output.output_type == "error" for output in cell.outputs):
                    nb_man.cell_exception(cell, index)
                    return
            nb_man.cell_complete(cell, index)


papermill_engines.register("fork", ForkEngine)


def run_cells(connection: Connection, other_end: Connection) -> None:
    """Run the cells that come in, in IPython; send back each one's number and outputs."""
    other_end.close()
    from IPython.core.displayhook import DisplayHook
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.core.pylabtools import activate_matplotlib
    from IPython.utils.capture import capture_output
    from matplotlib_inline.backend_inline import configure_inline_support
    from traitlets.config import Config

    warnings.resetwarnings()
    warnings.showwarning = show_warning

    class Published(DisplayHook):
        """Publishes the value of a cell, where IPython prints it."""

        def write_output_prompt(self) -> None:
            pass

        def write_format_data(self, data: Any, metadata: Any = None) -> None:
            self.shell.display_pub.publish(data, metadata)

    config = Config(HistoryManager={"enabled": False})
    shell = InteractiveShell.instance(config=config, displayhook_class=Published)
    activate_matplotlib(INLINE)  # type: ignore[no-untyped-call]
    configure_inline_support(shell, INLINE)  # type: ignore[no-untyped-call]
    with suppress(EOFError):
        while True:
            source = connection.recv()
            with capture_output() as captured:
                result = shell.run_cell(source, store_history=True)
            texts = {"stdout": captured.stdout, "stderr": captured.stderr}
            outputs = [new_output("stream", name=n, text=t) for n, t in texts.items() if t]
            outputs += [new_output("display_data", as_text(each.data)) for each in captured.outputs]
            if error := result.error_before_exec or result.error_in_exec:
                named = {"ename": type(error).__name__, "evalue": str(error)}
                outputs.append(new_output("error", **named, traceback=[]))
            connection.send((result.execution_count, outputs))


def as_text(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an output is shown as, by MIME type, with images as text."""
    return {
        kind: b64encode(shown).decode() if isinstance(shown, bytes) else shown
        for kind, shown in data.items()
    }


def show_warning(
    message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Write a warning of a cell to its stderr."""
    sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))


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
    """Return a message with "cell" for a cell's name, and without absolute folders."""
    text = re.sub(r"<ipython-input-[^>]*>", "cell", text)
    # the environment first: it may lie inside the working folder
    return text.replace(f"{sys.prefix}/", "").replace(f"{Path.cwd()}/", "")


if __name__ == "__main__":
    sys.exit(main())
