"""What all programs share: options, errors in one line, logging, threads."""

import argparse
import atexit
import gc
import logging
import math
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal, NoReturn

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.threads import limit_threads
from ntk_workflow import slurm_limits

Argv = Sequence[str] | None  #: a program's arguments; None: those of the command line
log = logging.getLogger("ntk_workflow")  #: what programs say


def _number(kind: Any, what: str, fits: Callable[[Any], bool]) -> Callable[[str], Any]:
    """Return a type for `Parser.add_argument`: numbers that fit."""

    def convert(text: str) -> Any:
        try:
            if fits(number := kind(text)):
                return number
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"{text} is not {what}")

    return convert


positive_integer = _number(int, "a whole number above zero", lambda n: n > 0)
positive_number = _number(float, "a number above zero", lambda x: 0 < x < math.inf)
not_negative = _number(float, "a number from 0 on", lambda x: 0 <= x < math.inf)
count_from_zero = seed = _number(int, "a whole number from 0 on", lambda n: n >= 0)


def positive_integer_or_all(text: str) -> int | Literal["all"]:
    """Return ``"all"`` or a whole number above zero; a type for `Parser.add_argument`."""
    return "all" if text == "all" else positive_integer(text)


def named_path(text: str) -> tuple[str, Path]:
    """Return the two sides of ``NAME=PATH``; a type for `Parser.add_argument`."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=PATH")
    return name, Path(path)


def threads_given(text: str) -> int:
    """Return the threads that are asked for, at most as many as there are cores; a type."""
    return min(int(positive_integer(text)), slurm_limits.cores())


#: Options of several programs, by name.
OPTIONS: dict[str, dict[str, Any]] = {
    "data": {"type": Path, "required": True, "help": "prepared dataset (.npz)"},
    "dataset": {"required": True, "help": "name written into the table"},
    "activation": {"nargs": "+", "required": True, "help": "names of activations"},
    "activation-file": {"action": "append", "type": Path, "default": [], "help": "registers more"},
    "samples": {"type": positive_integer, "required": True, "help": "samples of a kernel"},
    "sample-seed": {"type": seed, "default": 1, "help": "seed that draws the samples"},
    "widths": {"type": positive_integer, "nargs": "+", "required": True, "help": "widths"},
    "depths": {"type": count_from_zero, "nargs": "+", "required": True, "help": "hidden layers"},
    "seeds": {"type": seed, "nargs": "+", "required": True, "help": "seeds to compute"},
    "threads": {"type": threads_given, "default": 1, "help": "at most as many as cores are given"},
    "width": {"type": positive_integer, "default": 512, "help": "units per layer"},
    "device": {"choices": ["cpu", "cuda", "auto"], "default": "cpu", "help": "auto: a GPU, or CPU"},
    "exclude-duplicates": {"action": "store_true", "help": "leave out equal samples"},
    "kernel-size": {"type": positive_integer_or_all, "default": 512, "help": "samples, or all"},
    "blocks": {"type": positive_integer_or_all, "default": 1, "help": "kernels, or all that fit"},
    "eigenvalues": {"choices": ["first", "all", "none"], "default": "first", "help": "blocks kept"},
    "full-spectrum-below": {"type": positive_integer, "default": 2048, "help": "else extremes"},
    "architecture": {"required": True, "help": "name written into the table"},
    "hidden": {"nargs": "+", "required": True, "help": "widths of layers; m is that which varies"},
    "dense": {"action": "store_true", "help": "a DenseNet: a layer takes all layers before it"},
    "classes": {"type": int, "nargs": 2, "help": "labels of two classes; else the lowest two"},
    "step-size": {"type": positive_number, "default": 0.5, "help": "of descent, by 1 / lambda_max"},
    "experiment": {"required": True, "help": "name written into the table"},
    "model": {"default": "mlp", "help": "kind of network"},
    "model-file": {"type": Path, "help": "Python file of a --model that is not built in"},
    "model-function": {"default": "build", "help": "its function that builds networks"},
    "settings": {"nargs": "+", "required": True, "metavar": "KEY=VALUE", "help": "as in a config"},
    "output": {"type": Path, "required": True, "help": "table to write (.parquet)"},
    "checkpoints": {"type": Path, "help": "folder in which cells that are done are kept"},
    "code": {"default": "", "help": "digest of the code, on which checkpoints depend"},
}
#: Those of all programs that compute for activations, and those of rows with checkpoints.
COMPUTE = ("activation", "activation-file", "threads", "output")
ROW = (*COMPUTE, "dataset", "checkpoints", "code")
BLOCKS = ("kernel-size", "blocks", "eigenvalues", "full-spectrum-below")
#: Those of a study of wide networks of one architecture, which learn two classes.
WIDE = (
    *(*ROW, "data", "samples", "sample-seed", "widths", "seeds", "device", "architecture"),
    *("hidden", "dense", "classes", "step-size"),
)
TRAINING = (
    *("data", "dataset", "activation-file", "experiment", "model", "model-file"),
    *("model-function", "settings", "threads", "output"),
)


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations whose errors are a `UserError`, hence one line.

    It begins with some of the `OPTIONS`. Linear algebra keeps to the ``threads`` that it parses.
    """

    def __init__(self, *names: str, **options: Any) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(allow_abbrev=False, formatter_class=formatter, **options)
        for name in names:
            self.add_argument(f"--{name}", **OPTIONS[name])

    def parse_args(self, argv: Argv) -> argparse.Namespace:  # type: ignore[override]
        args = super().parse_args(argv)
        if "threads" in args:
            limit_threads(args.threads)
        return args

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def program(main: Callable[[Argv], int | None]) -> Callable[..., int]:
    """Return ``main`` with logging to stderr; its None is code 0, a user's mistake a line and 2.

    A decorator, which calls it where its file is the program that runs. What is not the user's to
    mend is a defect of ours and keeps its traceback.
    """

    @wraps(main)
    def guarded(argv: Argv = None) -> int:
        handler = logging.StreamHandler(sys.stderr)  # for the time of one call only
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        packages = [logging.getLogger(name) for name in ("ntk_conditioning", "ntk_workflow")]
        for package in packages:
            package.addHandler(handler)
            package.setLevel(logging.INFO)
        if argv is None:
            atexit.register(gc.freeze)  # or torch is looked through for what to free: 0.4 s
        try:
            return main(argv) or 0
        except (UserError, MemoryError, RuntimeError, OSError) as error:
            # an OSError names the file that is not there, or may not be written
            memory = isinstance(error, MemoryError | RuntimeError)
            problem = memory_problem(error) if memory else one_line(error)
            if not problem:
                raise
            sys.stderr.write(f"{Path(main.__code__.co_filename).stem}: error: {problem}\n")
            return 2
        finally:
            for package in packages:
                package.removeHandler(handler)

    if main.__module__ == "__main__":
        sys.exit(guarded())
    return guarded


def memory_problem(error: Exception) -> str | None:
    """Return what is said of an error in a line if it is that there is no memory left.

    >>> memory_problem(MemoryError("Unable to allocate 7.5 GiB for an array"))
    'out of memory (Unable to allocate 7.5 GiB for an array); lower kernel_size, samples or width'
    """
    # what CUDA, cuBLAS and torch on a CPU say of it
    filled = ("out of memory", "_STATUS_ALLOC_FAILED", "can't allocate memory")
    if not isinstance(error, MemoryError) and not any(words in str(error) for words in filled):
        return None
    words = one_line(error).partition(" GPU ")[0].partition(" Error code")[0]
    return f"out of memory ({words}); lower kernel_size, samples or width"
