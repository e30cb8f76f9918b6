"""Run one figure's notebook: keep the executed notebook, and see that the figure's files exist."""

import logging
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
import papermill
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import atomic, room_for
from ntk_workflow.cli import Argv, Parser, program
from ntk_workflow.yaml_files import named_values

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


class ThisPython(AsyncKernelManager):
    """Starts kernels with the Python of this program, whatever kernels its user has installed."""

    kernel_spec = KernelSpec(**get_kernel_dict(["--log-level=CRITICAL"]))  # its end is an interrupt
    transport_encryption = "auto"  # others on this machine may listen; ipykernel warns without it


def reproducible(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return an executed notebook without times, versions, process numbers and absolute paths."""
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": KERNEL["language"]}}
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
        cell.id = "injected-parameters" if "injected-parameters" in tags else cell.id
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                text = re.sub(r"\S*/ipykernel_\d+/\d+\.py", "cell", output.text)
                # the environment first: it may lie inside the working folder
                output.text = text.replace(f"{sys.prefix}/", "").replace(f"{Path.cwd()}/", "")
    return notebook


@program
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("notebook", type=Path, help="notebook to run (.ipynb)")
    add("--parameters", nargs="+", required=True, metavar="NAME=VALUE", help="all")
    add("--output", type=Path, required=True, help="executed notebook to write")
    add("--failed", type=Path, required=True, help="where a failed one is kept")
    add("--outputs", type=Path, nargs="+", default=[], help="files it must write")
    args = parser.parse_args(argv)

    parameters = named_values(args.parameters, option="--parameters")
    try:
        expected = papermill.inspect_notebook(args.notebook).keys()
    except (ValueError, AttributeError, nbformat.ValidationError) as error:
        raise UserError(f"{args.notebook}: not a notebook: {one_line(error)}") from None
    if parameters.keys() != expected:
        sets = (parameters.keys() - expected, expected - parameters.keys(), expected)
        words = (", ".join(sorted(names)) or "none" for names in sets)
        problem = "unknown parameters: {}; missing: {}; it takes: {}".format(*words)
        raise UserError(f"{args.notebook}: {problem}")
    for path in (args.output, *args.outputs):  # an earlier run's files must not pass for this one's
        path.unlink(missing_ok=True)
    args.failed.parent.mkdir(parents=True, exist_ok=True)
    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # what it says is said below
    problem, inline = "", "module://matplotlib_inline.backend_inline"
    with tempfile.TemporaryDirectory() as scratch, room_for(args.failed):
        # Settings in the user's home do not count, and it may be read-only.
        os.environ |= {"IPYTHONDIR": scratch, "JUPYTER_RUNTIME_DIR": scratch, "MPLBACKEND": inline}
        try:
            papermill.execute_notebook(
                args.notebook,
                args.failed,
                parameters,
                kernel_name=KERNEL["name"],
                kernel_manager_class=ThisPython,
                autosave_cell_every=0,
                coalesce_streams=True,
                progress_bar=sys.stderr.isatty(),
            )
        except papermill.PapermillExecutionError as error:
            problem = f"cell [{error.exec_count}]: {error.ename}: {' '.join(error.evalue.split())}"
        except DeadKernelError:
            problem = "the kernel died, perhaps for lack of memory"
    if not problem and (missing := [str(path) for path in args.outputs if not path.is_file()]):
        problem = f"it ran, but did not write {', '.join(missing)}"
    if problem:
        raise UserError(f"{args.notebook}: {problem}; see {args.failed}")
    with atomic(args.output) as temporary:
        nbformat.write(reproducible(nbformat.read(args.failed, as_version=4)), temporary)
    args.failed.unlink()
