"""What all programs share: arguments, errors in one line, logging, threads."""

import argparse
import atexit
import errno
import gc
import logging
import math
import os
import platform
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

from ntk_conditioning import files
from ntk_conditioning.errors import UserError, one_line
from ntk_workflow import allocation

Argv = Sequence[str] | None  #: a program's arguments; None: those of the command line
Main = Callable[[Argv], int | None]


class UsageError(UserError):
    """The command line is not one that the program takes."""


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations whose errors are a `UsageError`, hence one line.

    ``description`` is usually the program's own docstring.
    """

    def __init__(self, **options: Any) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(allow_abbrev=False, formatter_class=formatter, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def logger(file: str) -> logging.Logger:
    """Return the logger of a program, from its ``__file__``."""
    return logging.getLogger(f"ntk_workflow.{Path(file).stem}")


log = logger(__file__)

#: Errors of the machine, whose messages name the file; `files.room_for` is for those that do not.
DENIED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


def run_main(main: Main) -> Callable[..., int]:
    """Return ``main`` with logging to stderr; its None is code 0, a user's mistake a line and 2.

    A decorator. What is not the user's to mend is a defect of ours and keeps its traceback.
    """

    @wraps(main)
    def guarded(argv: Argv = None) -> int:
        handler = logging.StreamHandler(sys.stderr)  # for the time of one call only
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        packages = [logging.getLogger(name) for name in ("ntk_conditioning", "ntk_workflow")]
        for package in packages:
            package.addHandler(handler)
            package.setLevel(logging.INFO)
        if "NTK_JOB" in os.environ:  # for the record of jobs: a kind of host, not which
            log.info("host %s %s", platform.system(), platform.machine())
        try:
            if argv is None:
                atexit.register(gc.freeze)  # or torch is looked through for what to free: 0.4 s
            code = main(argv) or 0
            if "NTK_JOB" in os.environ and not code:
                # what a job was asked to write, for its record; not its checkpoints
                words = set(sys.argv if argv is None else argv)
                for path in dict.fromkeys(path for path in files.written if str(path) in words):
                    log.info("wrote %s sha256 %s", path, files.sha256(path))
            return code
        except (UserError, MemoryError, RuntimeError, OSError) as error:
            if not (problem := _problem(error)):
                raise
            program = Path(main.__code__.co_filename).stem
            sys.stderr.write(f"{program}: error: {problem}\n")
            return 2
        finally:
            for package in packages:
                package.removeHandler(handler)

    return guarded


def _problem(error: Exception) -> str | None:
    """Return what is said of an error in a line, None if that is not the user's to mend."""
    if isinstance(error, UserError):
        return " ".join(str(error).splitlines())
    if isinstance(error, OSError):
        return one_line(error) if error.errno in DENIED else None
    return memory_problem(error) if isinstance(error, MemoryError | RuntimeError) else None


def memory_problem(error: MemoryError | RuntimeError) -> str | None:
    """Return what is said of an error in a line if it is that there is no memory left.

    >>> memory_problem(MemoryError("Unable to allocate 7.5 GiB for an array"))
    'out of memory (Unable to allocate 7.5 GiB for an array); lower kernel_size, samples or width'
    >>> memory_problem(RuntimeError("CUDA error: out of memory")).partition("; ")[2]
    'lower kernel_size, samples or width, or see that nobody else uses this GPU'
    """
    torch = sys.modules.get("torch")
    filled = "CUDA error: out of memory", "_STATUS_ALLOC_FAILED"  # what CUDA and cuBLAS say of it
    if isinstance(error, getattr(torch, "OutOfMemoryError", ())) or any(
        words in str(error) for words in filled
    ):
        remedy = ", or see that nobody else uses this GPU"
    elif isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        remedy = ""
    else:
        return None
    words = one_line(error).partition(" GPU ")[0].partition(" Error code")[0]
    said = f" ({words})" if words else ""
    return f"out of memory{said}; lower kernel_size, samples or width{remedy}"


Number = TypeVar("Number", int, float)


def _number(
    kind: type[Number], problem: str, fits: Callable[[Number], bool]
) -> Callable[[str], Number]:
    """Return a type for `Parser.add_argument`: numbers that fit."""

    def convert(text: str) -> Number:
        try:
            number = kind(text)
        except ValueError:
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text!r} is not a {what}") from None
        if not fits(number):
            raise argparse.ArgumentTypeError(f"{text} {problem}")
        return number

    return convert


#: Types for `Parser.add_argument`.
positive_integer = _number(int, "is not above zero", lambda n: n > 0)
positive_number = _number(float, "is not a number above zero", lambda x: 0 < x < math.inf)
not_negative = _number(float, "is not a number from 0 on", lambda x: 0 <= x < math.inf)
share = _number(float, "is not a number from 0 to below 1", lambda x: 0 <= x < 1)
count_from_zero = seed = _number(int, "is negative", lambda n: n >= 0)


def positive_integer_or_all(text: str) -> int | Literal["all"]:
    """Return ``"all"`` or a whole number above zero; a type for `Parser.add_argument`."""
    return "all" if text == "all" else positive_integer(text)


def threads_argument(parser: argparse.ArgumentParser) -> None:
    """Add the threads of a program: those that it is asked to use and was given cores for."""

    def threads_given(text: str) -> int:
        asked, given = positive_integer(text), allocation.cores(os.environ)
        if asked > given:
            log.info("%d threads asked for, %d given: using %d", asked, given, given)
        return min(asked, given)

    threads = "processor threads, at most as many as the job has cores"
    parser.add_argument("--threads", type=threads_given, default=1, help=threads)


def named_path(text: str) -> tuple[str, Path]:
    """Return the two sides of ``NAME=PATH``; a type for `Parser.add_argument`."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=PATH")
    return name, Path(path)


def limit_threads(threads: int) -> None:
    """Let linear algebra use that many threads, so that a job keeps to what it was given.

    Sets it in libraries that are loaded; those that come later read the environment.
    """
    import threadpoolctl

    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(threads)

    threadpoolctl.threadpool_limits(limits=threads)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
