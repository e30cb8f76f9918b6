"""Measure what depth does to random samples on the sphere, through one activation."""

from itertools import product
from pathlib import Path
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.kernels import tabulated
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.phase import RandomPlace, measure
from ntk_conditioning.theory.sphere import SHAPES
from ntk_workflow import cli
from ntk_workflow.cli_activations import activation_files_argument, load_activation_files
from ntk_workflow.progress import progress

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(description=__doc__)
    add, positive = parser.add_argument, cli.positive_integer
    for name in SHAPES:
        help = f"numbers of the shape {name}"
        add(f"--{name.replace('_', '-')}", type=cli.not_negative, nargs="+", default=(), help=help)
    add("--activation", required=True, help="name of the activation")
    activation_files_argument(parser)
    add("--samples", type=positive, nargs="+", required=True, help="numbers n of samples")
    help = "numbers n/d, of which those that leave fewer than 3 dimensions are left out"
    add("--samples-per-dimension", type=cli.positive_number, nargs="+", required=True, help=help)
    add("--depths", type=positive, nargs="+", required=True, help="hidden layers")
    add("--seeds", type=cli.seed, nargs="+", required=True, help="seeds of the samples")
    cli.threads_argument(parser)
    add("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    cli.limit_threads(args.threads)
    load_activation_files(args.activation_file)
    sigma = activations.get(args.activation)
    log.info("device cpu, float64, infinite width, samples drawn on the sphere")
    functions = tabulated.tables(sigma, args.depths)
    places = [
        (RandomPlace(shape=shape, parameter=parameter, n=n, d=round(n / ratio)), seed)
        for n, ratio in product(args.samples, args.samples_per_dimension)
        for shape in SHAPES
        for parameter, seed in product(vars(args)[shape], args.seeds)
        if n / ratio >= 3
    ]
    rows: list[dict[str, Any]] = []
    for place, seed in progress(places, unit="place", log=log):
        rows += measure(place, sigma, functions, seed=seed)
    tables.write(args.output, "phase", rows)


if __name__ == "__main__":
    raise SystemExit(main())
