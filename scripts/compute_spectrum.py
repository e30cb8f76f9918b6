"""Condition a kernel of networks of finite width on random blocks of a dataset."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ntk_conditioning import memory
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks.mlp import MLP, init_mlp, is_linear, linear_embedding_map, linear_map
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import (
    Conditioning,
    conditioning,
    conditioning_from_factor,
)
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning
from ntk_conditioning.spectra.factorisations import scratch_bytes
from ntk_conditioning.tables.spectra import SPECTRA
from ntk_workflow.cli import logger, positive_integer, run_main
from ntk_workflow.devices.device import device_argument, torch_device
from ntk_workflow.plan import cells
from ntk_workflow.rows.blocks import block_arguments, block_rows, memory_budget
from ntk_workflow.rows.cell import (
    cell_parser,
    depth_list,
    each_cell,
    load_activation,
    seed_argument,
)

log = logger(__file__)

# Of each kernel: how it is computed, and the map from the inputs whose square it is, if linear.
KERNELS = {
    "empirical_ntk": (empirical.ntk, linear_map),
    "empirical_nngp": (empirical.nngp, linear_embedding_map),
}


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = cell_parser(__doc__)
    seed_argument(parser)
    block_arguments(parser)
    parser.add_argument("--kernel", choices=cells.FINITE, default=cells.EMPIRICAL)
    parser.add_argument(
        "--width", type=positive_integer, default=512, help="hidden units per layer"
    )
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    device_argument(parser)
    args = parser.parse_args(argv)

    device = torch_device(args)
    activation = load_activation(args)
    log.info("device %s, %s, width %d, %s", device, args.dtype, args.width, depth_list(args.depths))
    labels = {"kernel": args.kernel, "width": args.width, "dtype": args.dtype}
    for cell in each_cell(args, SPECTRA, program=__file__):
        mlp = init_mlp(
            cell.x.shape[1],
            depth=cell.depth,
            width=args.width,
            activation=activation,
            generator=generator(cell.seed, "init"),
            dtype=getattr(torch, args.dtype),
            device=device,
        )
        room = Room(args, mlp)
        solve = partial(condition, args, mlp, room)
        if is_linear(mlp):
            solve = partial(condition_linear, mlp, KERNELS[args.kernel][1](mlp))
        rows = block_rows(args, cell, solve, labels=labels, fit=room.require)
        cell.write(rows)
    return 0


class Room:
    """The memory that the kernels of a network may take on its device."""

    def __init__(self, args: argparse.Namespace, mlp: MLP) -> None:
        self._mlp, self._whole_below = mlp, args.full_spectrum_below
        self._threads = args.threads
        # numbers that a sample is turned into: its gradient's factors, or its embedding
        layers = 1 if args.kernel == "empirical_nngp" else 2 * mlp.depth
        self._numbers = mlp.dim + mlp.width * layers
        gpu = mlp.device.type == "cuda" and args.memory_gb is None
        self._budget = torch.cuda.mem_get_info(mlp.device)[0] if gpu else memory_budget(args)

    def needed(self, n: int, itemsize: int) -> int:
        """Return the bytes for a kernel of ``n`` samples, its conditioning and its gradients."""
        copies, scratch = 1, 0  # solved in its place
        if n < self._whole_below:  # LAPACK takes a copy in float64, and threads blocks of their own
            copies = self._threads * (2 if itemsize == 8 else 5)
        elif self._mlp.device.type != "cpu":
            scratch = scratch_bytes(n, itemsize=itemsize)
        row = itemsize * self._numbers
        return scratch + memory.kernel_bytes(n, itemsize=itemsize, row_bytes=row, copies=copies)

    def require(self, n: int) -> None:
        """Raise an error if a kernel of ``n`` samples does not fit."""
        if not is_linear(self._mlp):  # else there is none
            remedy = "lower kernel_size, or find a larger machine"
            itemsize = self._mlp.dtype.itemsize
            memory.require(n, self.needed, itemsize=itemsize, available=self._budget, remedy=remedy)

    def for_gradients(self, n: int) -> int:
        """Return the bytes that gradients may take beside the kernel of ``n`` samples."""
        itemsize = self._mlp.dtype.itemsize
        usual = max(empirical.LEAST_MEMORY, n * n * itemsize // 2)
        return min(usual, max(0, self._budget - self.needed(n, itemsize)))


def condition(
    args: argparse.Namespace, mlp: MLP, room: Room, block: NDArray[np.float64]
) -> Conditioning:
    """Return the conditioning of a kernel of ``mlp`` on a block of samples (n, d)."""
    samples = torch.from_numpy(block).to(dtype=mlp.dtype, device=mlp.device)
    kernel = KERNELS[args.kernel][0](mlp, samples, memory=room.for_gradients(len(samples)))
    if len(kernel) < args.full_spectrum_below:
        return conditioning(kernel.numpy(force=True))
    return extreme_conditioning(kernel, overwrite=True)


def condition_linear(mlp: MLP, factor: Tensor, block: NDArray[np.float64]) -> Conditioning:
    """Return the conditioning of a kernel of a linear network on a block of samples (n, d).

    ``factor`` is the map of `KERNELS`, which serves all blocks. The kernel itself would be its
    square, and lose half of the digits.
    """
    samples = torch.from_numpy(block).to(dtype=mlp.dtype, device=mlp.device)
    return conditioning_from_factor((samples @ factor).numpy(force=True))


if __name__ == "__main__":
    sys.exit(main())
