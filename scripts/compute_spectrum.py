"""Condition a kernel of networks of finite width on random blocks of a dataset."""

from itertools import product
from pathlib import Path
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
from ntk_workflow.rows import available_memory, samples_by_seed
from ntk_workflow.rows.blocks import REMEDY, block_arguments, block_rows

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(*cli.ROW, "depths", "seeds", "memory-gb", description=__doc__)
    block_arguments(parser)
    device_argument(parser)
    add, kernels = parser.add_argument, get_args(EmpiricalName)
    add("--data", type=Path, nargs="+", required=True, help="dataset (.npz), for all seeds or each")
    add("--kernel", choices=kernels, default=kernels[0])
    add("--width", type=cli.positive_integer, default=512, help="units per layer")
    add("--dtype", choices=["float64", "float32"], default="float64")
    args = parser.parse_args(argv)

    cli.limit_threads(args.threads)
    sigmas = load_activations(args.activation, args.activation_file)
    device = torch_device(args.device)
    log.info("device %s, %s, width %d, depths %s", device, args.dtype, args.width, args.depths)
    checkpoints = Checkpoints(args.checkpoints, "spectra")
    rows = []
    for seed, x, data in samples_by_seed(args.data, args.seeds):
        for (activation, sigma), depth in product(sigmas.items(), args.depths):
            names = {"kernel": args.kernel, "dataset": args.dataset, "activation": activation}
            names |= {"depth": depth, "seed": seed, "width": args.width}
            blocks = {"size": args.kernel_size, "count": args.blocks}
            blocks |= {"eigenvalues": args.eigenvalues}
            cell = names | {"code": args.code, "data": data} | blocks
            cell |= {"full_spectrum_below": args.full_spectrum_below}
            cell |= {"dtype": args.dtype, "device": device.type}
            if (done := checkpoints.read(cell)) is None:
                size = {"depth": depth, "width": args.width, "activation": sigma}
                place = {"dtype": getattr(torch, args.dtype), "device": device}
                mlp = init_mlp(x.shape[1], **size, generator=generator(seed, "init"), **place)
                available = available_memory(args.memory_gb, device.type)
                budget = MemoryBudget(available, args.full_spectrum_below, args.threads, REMEDY)
                kernel = EmpiricalKernel(mlp, args.kernel, budget)
                done = [names | row for row in block_rows(kernel, x, seed=seed, **blocks)]
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "spectra", rows)


if __name__ == "__main__":
    raise SystemExit(main())
