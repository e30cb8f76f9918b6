"""Condition a kernel of networks of finite width on random blocks of a dataset."""

from itertools import product
from typing import get_args

import torch

from ntk_conditioning import tables
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import MemoryBudget
from ntk_conditioning.spectra.empirical_kernel import EmpiricalKernel, EmpiricalName
from ntk_workflow import cli
from ntk_workflow.checkpoints.cells import Checkpoints
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.devices import device_argument, torch_device
from ntk_workflow.rows import available_memory, grid_arguments, row_parser, samples_by_seed
from ntk_workflow.rows.blocks import REMEDY, block_arguments, block_rows

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser, kernels = row_parser(__doc__), get_args(EmpiricalName)
    grid_arguments(parser)
    block_arguments(parser)
    device_argument(parser)
    add = parser.add_argument
    add("--kernel", choices=kernels, default=kernels[0])
    add("--width", type=cli.positive_integer, default=512, help="units per layer")
    add("--dtype", choices=["float64", "float32"], default="float64")
    args = parser.parse_args(argv)

    cli.limit_threads(args.threads)
    load_activations(args.activation, args.activation_file)
    device = torch_device(args.device)
    log.info("device %s, %s, width %d, depths %s", device, args.dtype, args.width, args.depths)
    checkpoints = Checkpoints(args.checkpoints, "spectra")
    rows = []
    for seed, x, data in samples_by_seed(args.data, args.seeds):
        for activation, depth in product(args.activation, args.depths):
            names = {
                "kernel": args.kernel,
                "dataset": args.dataset,
                "activation": activation,
                "depth": depth,
                "seed": seed,
                "width": args.width,
            }
            cell = names | {
                "code": args.code,
                "data": data,
                "dtype": args.dtype,
                "device": device.type,
                "kernel_size": args.kernel_size,
                "blocks": args.blocks,
                "eigenvalues": args.eigenvalues,
                "full_spectrum_below": args.full_spectrum_below,
            }
            if (done := checkpoints.read(cell)) is None:
                mlp = init_mlp(
                    x.shape[1],
                    depth=depth,
                    width=args.width,
                    activation=activation,
                    generator=generator(seed, "init"),
                    dtype=getattr(torch, args.dtype),
                    device=device,
                )
                available = available_memory(args.memory_gb, device.type)
                budget = MemoryBudget(available, args.full_spectrum_below, args.threads, REMEDY)
                blocks = block_rows(
                    EmpiricalKernel(mlp, args.kernel, budget),
                    x,
                    seed=seed,
                    size=args.kernel_size,
                    count=args.blocks,
                    eigenvalues=args.eigenvalues,
                )
                done = [names | block for block in blocks]
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "spectra", rows)


if __name__ == "__main__":
    raise SystemExit(main())
