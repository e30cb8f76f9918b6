"""Evaluate the laws of random samples on a grid of the map: what theory says of conditioning."""

from itertools import product
from pathlib import Path
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.kernels import tabulated
from ntk_conditioning.theory import law_grid
from ntk_conditioning.theory.phase import laws
from ntk_workflow import cli
from ntk_workflow.cli_activations import activations_argument, load_activations

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(description=__doc__)
    add, positive = parser.add_argument, cli.positive_integer
    activations_argument(parser)
    add("--samples", type=positive, required=True, help="number n of samples")
    help = "smallest and largest number n/d"
    add("--samples-per-dimension", type=cli.positive_number, nargs=2, required=True, help=help)
    add("--closest", type=cli.positive_number, required=True, help="smallest 1 - mean cosine")
    add(
        "--points", type=positive, nargs=2, required=True, help="how many n/d, and how many cosines"
    )
    add("--depths", type=positive, nargs="+", required=True, help="hidden layers")
    add("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    sigmas = load_activations(args.activation, args.activation_file)
    n = args.samples
    log.info("float64, infinite width, laws of %d samples", n)
    grid = {"samples_per_dimension": args.samples_per_dimension, "closest": args.closest}
    places = [*law_grid.places(samples=n, **grid, points=args.points)]
    rows: list[dict[str, Any]] = []
    for name, sigma in sigmas.items():
        functions = tabulated.tables(sigma, {0, *args.depths})
        for (depth, function), (d, c) in product(functions.items(), places):
            keys = {"activation": name, "depth": depth}
            rows.append(keys | laws(function, c, n=n, d=d))
    tables.write(args.output, "phase_laws", rows)


if __name__ == "__main__":
    raise SystemExit(main())
