"""Measure what repairs of samples and kernels give in kappa and in predicted steps."""

from dataclasses import asdict
from itertools import product

import numpy as np

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.data.subsets import draw, seed_stream
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.training.preconditioning import repairs
from ntk_workflow import cli


@cli.program
def main(argv: cli.Argv = None) -> None:
    options = (*cli.COMPUTE, "data", "dataset", "samples", "depths", "seeds")
    parser = cli.Parser(*options, description=__doc__)
    parser.add_argument("--directions", type=int, nargs="+", required=True, help="top ones removed")
    args = parser.parse_args(argv)

    sigmas = activations.load(args.activation, args.activation_file)
    data = load_prepared(args.data)
    if data.y is None:
        raise UserError(f"{args.data} has no labels, and steps are until they are learned")
    cli.log.info("device cpu, float64, infinite width, %d samples of %d", args.samples, len(data.x))
    codes = np.eye(len(labels := np.unique(data.y)))[np.searchsorted(labels, data.y)]
    rows = []
    for seed in args.seeds:
        chosen = draw(args.dataset, len(data.x), args.samples, generator=seed_stream(seed))
        x, y = data.x[chosen], codes[chosen]
        for (name, sigma), depth in product(sigmas.items(), args.depths):
            keys = {"dataset": args.dataset, "activation": name, "depth": depth, "seed": seed}
            for repair in repairs(x, y, activation=sigma, depth=depth, directions=args.directions):
                rows.append(keys | asdict(repair) | {"d": x.shape[1]})
    tables.write(args.output, "repairs", rows)
