"""Condition a kernel of networks of finite width on random blocks of a dataset."""

from itertools import product
from pathlib import Path
from typing import get_args

import torch

from ntk_conditioning import tables
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import MemoryBudget, draw_blocks
from ntk_conditioning.spectra.condition_numbers import spectra_rows
from ntk_conditioning.spectra.empirical_kernel import EmpiricalKernel, EmpiricalName
from ntk_workflow import cli
from ntk_workflow.checkpoints import Checkpoints
from ntk_workflow.devices import torch_device
from ntk_workflow.rows import TOO_LARGE, available_memory, samples_by_seed


@cli.program
def main(argv: cli.Argv = None) -> None:
    options = (*cli.ROW, *cli.BLOCKS, "depths", "seeds", "width", "device")
    parser = cli.Parser(*options, description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, help="dataset (.npz), for all seeds or each")
    add("--kernel", choices=get_args(EmpiricalName), default="empirical_ntk")
    add("--dtype", choices=["float64", "float32"], default="float64")
    args = parser.parse_args(argv)

    sigmas = activations.load(args.activation, args.activation_file)
    device = torch_device(args.device)
    cli.log.info("device %s, %s, width %d, depths %s", device, args.dtype, args.width, args.depths)
    checkpoints = Checkpoints(args.checkpoints, "spectra")
    given = {"size": args.kernel_size, "count": args.blocks, "eigenvalues": args.eigenvalues}
    given |= {"full_spectrum_below": args.full_spectrum_below, "code": args.code}
    given |= {"dtype": args.dtype, "device": device.type}
    rows = []
    for seed, x, data in samples_by_seed(args.data, args.seeds):
        rng = generator(seed, "blocks")
        blocks = draw_blocks(len(x), size=args.kernel_size, count=args.blocks, generator=rng)
        for (activation, sigma), depth in product(sigmas.items(), args.depths):
            names = {"kernel": args.kernel, "dataset": args.dataset, "activation": activation}
            names |= {"depth": depth, "seed": seed, "width": args.width}
            cell = names | given | {"data": data}
            if (done := checkpoints.read(cell)) is None:
                size = {"depth": depth, "width": args.width, "activation": sigma}
                location = {"dtype": getattr(torch, args.dtype), "device": device}
                mlp = init_mlp(x.shape[1], **size, generator=generator(seed, "init"), **location)
                memory = available_memory(device.type)
                budget = MemoryBudget(memory, args.full_spectrum_below, args.threads, TOO_LARGE)
                kernel = EmpiricalKernel(mlp, args.kernel, budget)
                results = spectra_rows(kernel.on_blocks(x, blocks), eigenvalues=args.eigenvalues)
                done = [names | {"d": x.shape[1]} | row for row in results]
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "spectra", rows)
