"""Evaluate the laws of random samples on a grid of the map: what theory says of conditioning."""

from itertools import product

from ntk_conditioning import tables
from ntk_conditioning.kernels import interpolated_kernels
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.phase_diagram import law_grid, laws
from ntk_workflow import cli


@cli.program
def main(argv: cli.Argv = None) -> None:
    options = ("activation", "activation-file", "samples", "depths", "output")
    parser = cli.Parser(*options, description=__doc__)
    add, ratio, count = parser.add_argument, cli.positive_number, cli.positive_integer
    add("--samples-per-dimension", type=ratio, nargs=2, required=True, help="from, and to")
    add("--closest", type=ratio, required=True, help="smallest 1 - mean cosine")
    add("--points", type=count, nargs=2, required=True, help="how many n/d, how many cosines")
    args = parser.parse_args(argv)

    cli.log.info("float64, infinite width, laws of %d samples", args.samples)
    grid = {"samples_per_dimension": args.samples_per_dimension, "closest": args.closest}
    places = [*law_grid(samples=args.samples, **grid, points=args.points)]
    rows = []
    for name, sigma in activations.load(args.activation, args.activation_file).items():
        functions = interpolated_kernels.tables(sigma, {0, *args.depths})
        for (depth, function), (d, c) in product(functions.items(), places):
            keys = {"activation": name, "depth": depth}
            rows.append(keys | laws(function, c, n=args.samples, d=d))
    tables.write(args.output, "phase_laws", rows)
