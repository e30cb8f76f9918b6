"""Measure speed against the peers and write results/*.json and README.md.

Ratios are taken within one run, of methods that are called in turn on the same data and cores. No
ratio is reported where the results differ.
"""

import argparse
import importlib
import json
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.gpu import NoDeviceError
from benchmarks.settings import Settings, hold_process
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import write_text

NAMES = (
    "block",
    "conditioning",
    "angle",
    "training",
    "modules",
    "products",
    "gpu",
    "gpu_training",
)
log = logging.getLogger("benchmarks")


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        allow_abbrev=False,
    )
    add = arguments.add_argument
    add("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; all if none is given")
    add("--threads", type=int, default=_cores(), help="cores and threads of every method")
    add("--rounds", type=int, default=5, help="calls of every method that is not too slow")
    add(
        "--peer",
        action="append",
        default=[],
        metavar="jax=PYTHON",
        help="the Python of an environment that has a peer, in place of .peers/NAME",
    )
    add("--quick", action="store_true", help="tiny sizes, to see that all works; kept nowhere")
    add("--redraw", action="store_true", help="only write the sections of README.md anew")
    return arguments


def run(name: str, settings: Settings, folder: Path, *, redraw: bool = False) -> None:
    """Measure one benchmark and write its results."""
    module = importlib.import_module(f"benchmarks.{name}")
    if redraw:
        result = json.loads((folder / "results" / f"{name}.json").read_text(encoding="utf-8"))
    else:
        # Through JSON and rounded, so that a section does not change when it is redrawn.
        text = json.dumps(module.measure(settings))
        result = json.loads(text, parse_float=lambda number: float(f"{float(number):.6g}"))
        text = json.dumps(result, indent=2, ensure_ascii=False)
        write_text(folder / "results" / f"{name}.json", text + "\n")
    report.write_section(name, module.TITLE, module.markdown(result), folder)
    log.info("%s: written into %s", name, folder)


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        parser().error(f"no benchmark is called {unknown[0]}; they are {', '.join(NAMES)}")
    peers = dict(text.partition("=")[::2] for text in args.peer)
    if not peers.keys() <= {"jax", "nngeometry", "curvlinops"}:
        parser().error("--peer takes jax=PYTHON, nngeometry=PYTHON or curvlinops=PYTHON")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    hold_process(args.threads)
    settings = Settings(args.threads, args.rounds, args.quick, peers)
    folder = Path(tempfile.mkdtemp()) if args.quick else report.HERE
    failed = False
    for name in args.names or NAMES:
        try:
            run(name, settings, folder, redraw=args.redraw)
        except (UserError, FileNotFoundError) as error:
            log.error("%s: %s", name, error)
            # A run of all benchmarks succeeds without a GPU.
            failed |= bool(args.names) or not isinstance(error, NoDeviceError)
    return 2 if failed else 0


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main())
