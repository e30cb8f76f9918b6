"""What programs share that compute rows: all cells of one kernel, dataset and activation."""

import os
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import memory
from ntk_conditioning.files import sha256
from ntk_workflow import allocation, cli
from ntk_workflow.cli_activations import activations_argument
from ntk_workflow.samples import load_samples


def row_parser(description: str | None) -> cli.Parser:
    """Return a parser with the options of every program that computes a row."""
    parser = cli.Parser(description=description)
    add = parser.add_argument
    add("--dataset", required=True, help="name written into the table")
    activations_argument(parser)
    add("--output", type=Path, required=True, help="table to write (.parquet)")
    add("--checkpoints", type=Path, help="folder in which cells that are done are kept")
    add("--code", default="", help="digest of the code, on which what is kept depends")
    cli.threads_argument(parser)
    return parser


def grid_arguments(
    parser: ArgumentParser, *, seed_type: Callable[[str], int | None] = cli.seed
) -> None:
    """Add the samples, depths and seeds of a row."""
    add = parser.add_argument
    help = "prepared dataset (.npz), one for all seeds or one for each"
    add("--data", type=Path, nargs="+", required=True, help=help)
    depths = "numbers of hidden layers"
    add("--depths", type=cli.count_from_zero, nargs="+", required=True, help=depths)
    add("--seeds", type=seed_type, nargs="+", required=True, help="seeds to compute")


def memory_argument(parser: ArgumentParser) -> None:
    """Add the memory that a program may use."""
    help = "memory to keep within, in 10^9 bytes; by default what is available at the start"
    parser.add_argument("--memory-gb", type=cli.positive_number, help=help)


def available_memory(memory_gb: float | None, device: str = "cpu") -> int:
    """Return the bytes that a program may use: what it was given, or what its device has."""
    if memory_gb is not None:
        return int(memory_gb * memory.GB)
    if device == "cuda":
        import torch  # takes seconds, and kernels of infinite width do without

        return torch.cuda.mem_get_info()[0]
    return min([memory.available_bytes(), *allocation.granted_bytes(os.environ)])


def samples_by_seed(
    paths: Sequence[Path], seeds: Sequence[int | None]
) -> Iterator[tuple[Any, NDArray[np.float64], str]]:
    """Yield each seed with its samples (n, d) and the digest of their file: one for all, or each.

    Raises `UsageError` if there are neither one file nor as many as seeds.
    """
    if len(paths) not in (1, len(seeds)):
        problem = f"{len(paths)} files of data for {len(seeds)} seeds"
        raise cli.UsageError(f"{problem}; give one for all or as many")
    for number, seed in enumerate(seeds):
        if number < len(paths):
            x, digest = load_samples(paths[number]).x, sha256(paths[number])
        yield seed, x, digest
