"""Find the smallest gradient angle of the network of infinite width over all pairs of a dataset."""

from itertools import product
from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.kernels import infinite
from ntk_conditioning.networks import activations
from ntk_workflow import cli
from ntk_workflow.checkpoints import Checkpoints
from ntk_workflow.rows import samples_by_seed


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(*cli.ROW, "depths", "exclude-duplicates", description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, help="dataset (.npz), for all seeds or each")
    add("--seeds", type=cli.seed, nargs="*", default=[], help="of draws; none of a whole dataset")
    args = parser.parse_args(argv)

    sigmas = activations.load(args.activation, args.activation_file)
    cli.log.info("device cpu, float64, infinite width, depths %s", args.depths)
    checkpoints = Checkpoints(args.checkpoints, "angles")
    excluded = {"exclude_duplicates": args.exclude_duplicates}
    rows = []
    for seed, x, data in samples_by_seed(args.data, args.seeds or [None]):
        for (activation, sigma), depth in product(sigmas.items(), args.depths):
            names = {"kernel": "infinite_ntk", "dataset": args.dataset, "activation": activation}
            names |= {"depth": depth, "seed": seed, "width": None}
            cell = names | {"code": args.code, "data": data} | excluded
            if (done := checkpoints.read(cell)) is None:
                angle = infinite.min_angle(x, depth=depth, activation=sigma, **excluded)
                sizes = {"dtype": "float64", "n": len(x), "d": x.shape[1]}
                done = [names | sizes | angle.row()]
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "angles", rows)
