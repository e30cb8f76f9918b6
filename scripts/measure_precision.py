"""Compare condition numbers from float arithmetic with references in many digits."""

from ntk_conditioning import tables
from ntk_conditioning.spectra import precision
from ntk_workflow import cli

LABELS = ("kernel", "activation", "depth", "seed", "delta")


@cli.program
def main(argv: cli.Argv = None) -> None:
    options = ("samples", "width", "depths", "seeds", "threads", "output")
    parser = cli.Parser(*options, description=__doc__)
    add = parser.add_argument
    add("--dim", type=cli.positive_integer, required=True, help="input dimension")
    add("--points", type=cli.positive_integer, required=True, help="distances of the close pair")
    args = parser.parse_args(argv)

    sizes = {"samples": args.samples, "dim": args.dim, "width": args.width, "points": args.points}
    cli.log.info("device cpu, float32 and float64 beside %d digits", precision.DIGITS)
    rows = []
    for problem in precision.problems(depths=args.depths, seeds=args.seeds, **sizes):
        labels = {name: getattr(problem, name) for name in LABELS}
        labels |= {"width": args.width if problem.mlp else None, "n": args.samples, "d": args.dim}
        for measured in precision.measure(problem):
            kappa = measured.ratio if measured.resolved else None
            rows.append(labels | measured._asdict() | {"kappa": kappa})
    tables.write(args.output, "precision", rows)
