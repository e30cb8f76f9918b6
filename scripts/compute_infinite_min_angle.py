"""Find the smallest gradient angle of the network of infinite width over all pairs of a dataset."""

from itertools import product

from ntk_conditioning import tables
from ntk_conditioning.kernels import infinite
from ntk_workflow import cli
from ntk_workflow.checkpoints.cells import Checkpoints
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.rows import grid_arguments, row_parser, samples_by_seed
from ntk_workflow.rows.angles import angle_row

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser = row_parser(__doc__)
    grid_arguments(parser, seed_type=seed_or_none)
    parser.add_argument("--exclude-duplicates", action="store_true", help="leave out equal samples")
    args = parser.parse_args(argv)

    cli.limit_threads(args.threads)
    sigmas = load_activations(args.activation, args.activation_file)
    log.info("device cpu, float64, infinite width, depths %s", args.depths)
    checkpoints = Checkpoints(args.checkpoints, "angles")
    rows = []
    for seed, x, data in samples_by_seed(args.data, args.seeds):
        for (activation, sigma), depth in product(sigmas.items(), args.depths):
            names = {
                "kernel": "infinite_ntk",
                "dataset": args.dataset,
                "activation": activation,
                "depth": depth,
                "seed": seed,
                "width": None,
            }
            cell = names | {
                "code": args.code,
                "data": data,
                "exclude_duplicates": args.exclude_duplicates,
            }
            if (done := checkpoints.read(cell)) is None:
                try:
                    result = infinite.min_angle(
                        x,
                        depth=depth,
                        activation=sigma,
                        exclude_duplicates=args.exclude_duplicates,
                    )
                except infinite.UnresolvedKernelError as error:
                    raise infinite.UnresolvedKernelError(f"{args.dataset}: {error}") from None
                done = [names | angle_row(result, *x.shape)]
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "angles", rows)


def seed_or_none(text: str) -> int | None:
    """Return a seed, or None of ``none``, for a whole dataset; a type for `add_argument`."""
    return None if text == "none" else cli.seed(text)


if __name__ == "__main__":
    raise SystemExit(main())
