"""Find the smallest gradient angle of networks of finite width over all pairs of a dataset."""

from itertools import product

import torch

from ntk_conditioning import tables
from ntk_conditioning.angles.min_angle import MEMORY, min_angle
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_workflow import cli
from ntk_workflow.checkpoints.cells import Checkpoints
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.devices import device_argument, torch_device
from ntk_workflow.rows import (
    available_memory,
    grid_arguments,
    memory_argument,
    row_parser,
    samples_by_seed,
)
from ntk_workflow.rows.angles import angle_row

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser = row_parser(__doc__)
    grid_arguments(parser)
    memory_argument(parser)
    device_argument(parser)
    add = parser.add_argument
    add("--width", type=cli.positive_integer, default=512, help="units per layer")
    add("--exclude-duplicates", action="store_true", help="leave out equal samples")
    args = parser.parse_args(argv)

    cli.limit_threads(args.threads)
    load_activations(args.activation, args.activation_file)
    device = torch_device(args.device)
    # A half for the gradients; the samples and what is computed from them need the rest.
    memory = min(MEMORY, available_memory(args.memory_gb, device.type) // 2)
    log.info("device %s, float64, width %d, depths %s", device, args.width, args.depths)
    checkpoints = Checkpoints(args.checkpoints, "angles")
    rows = []
    for seed, x, data in samples_by_seed(args.data, args.seeds):
        for activation, depth in product(args.activation, args.depths):
            names = {
                "kernel": "empirical_ntk",
                "dataset": args.dataset,
                "activation": activation,
                "depth": depth,
                "seed": seed,
                "width": args.width,
            }
            cell = names | {
                "code": args.code,
                "data": data,
                "device": device.type,
                "exclude_duplicates": args.exclude_duplicates,
            }
            if (done := checkpoints.read(cell)) is None:
                mlp = init_mlp(
                    x.shape[1],
                    depth=depth,
                    width=args.width,
                    activation=activation,
                    generator=generator(seed, "init"),
                    device=device,
                )
                samples = torch.from_numpy(x).to(device)
                result = min_angle(
                    mlp, samples, memory=memory, exclude_duplicates=args.exclude_duplicates
                )
                done = [names | angle_row(result, *x.shape)]
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "angles", rows)


if __name__ == "__main__":
    raise SystemExit(main())
