"""Find the smallest gradient angle of networks of finite width over all pairs of a dataset."""

from itertools import product
from pathlib import Path

import torch

from ntk_conditioning import tables
from ntk_conditioning.angles.smallest_angle import MEMORY, min_angle
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_workflow import cli
from ntk_workflow.checkpoints import Checkpoints
from ntk_workflow.devices import torch_device
from ntk_workflow.rows import available_memory, samples_by_seed


@cli.program
def main(argv: cli.Argv = None) -> None:
    options = (*cli.ROW, "depths", "seeds", "width", "exclude-duplicates", "device")
    parser = cli.Parser(*options, description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="one, or each seed's")
    args = parser.parse_args(argv)

    sigmas = activations.load(args.activation, args.activation_file)
    device = torch_device(args.device)
    # A half for the gradients; the samples and what is computed from them need the rest.
    memory = min(MEMORY, available_memory(device.type) // 2)
    cli.log.info("device %s, float64, width %d, depths %s", device, args.width, args.depths)
    checkpoints = Checkpoints(args.checkpoints, "angles")
    excluded = {"exclude_duplicates": args.exclude_duplicates}
    rows = []
    for seed, x, data in samples_by_seed(args.data, args.seeds):
        samples = torch.from_numpy(x).to(device)
        for (activation, sigma), depth in product(sigmas.items(), args.depths):
            names = {"kernel": "empirical_ntk", "dataset": args.dataset, "activation": activation}
            names |= {"depth": depth, "seed": seed, "width": args.width}
            cell = names | {"code": args.code, "data": data, "device": device.type} | excluded
            if (done := checkpoints.read(cell)) is None:
                size = {"depth": depth, "width": args.width, "activation": sigma}
                rng = generator(seed, "init")
                mlp = init_mlp(x.shape[1], **size, generator=rng, device=device)
                angle = min_angle(mlp, samples, memory=memory, **excluded)
                sizes = {"dtype": "float64", "n": len(x), "d": x.shape[1]}
                done = [names | sizes | angle.row()]
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "angles", rows)
