"""Measure what depth does to kernels of random samples on the sphere: a part of the map."""

from itertools import product
from pathlib import Path
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.networks import activations
from ntk_conditioning.tables.phase import PHASE
from ntk_conditioning.theory.phase import Place, measure
from ntk_conditioning.theory.sphere import SHAPES
from ntk_workflow import cli
from ntk_workflow.cli_activations import activation_files_argument, load_activation_files
from ntk_workflow.progress import progress

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(description=__doc__)
    add, positive = parser.add_argument, cli.positive_integer
    add("--shape", choices=SHAPES, required=True, help="how samples lie")
    add("--parameters", type=cli.not_negative, nargs="+", required=True, help="of the shape")
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
    load_activation_files(args)
    sigma = activations.get(args.activation)
    log.info("device cpu, float64, infinite width, samples drawn on the sphere")
    places = [
        (Place(shape=args.shape, parameter=parameter, n=n, d=round(n / ratio)), seed)
        for n, ratio in product(args.samples, args.samples_per_dimension)
        for parameter, seed in product(args.parameters, args.seeds)
        if n / ratio >= 3
    ]
    rows: list[dict[str, Any]] = []
    for place, seed in progress(places, unit="place", log=log):
        rows += measure(place, sigma, depths=sorted(args.depths), seed=seed)
    tables.write(args.output, PHASE, tables.from_rows(PHASE, rows))


if __name__ == "__main__":
    raise SystemExit(main())
