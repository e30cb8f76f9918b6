"""Measure what depth does to random samples on the sphere, through one activation."""

from itertools import product
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.kernels import interpolated_kernels
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.phase_diagram import RandomPlace, measure
from ntk_conditioning.theory.sphere import SHAPES
from ntk_workflow import cli
from ntk_workflow.progress_bars import progress


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(*cli.COMPUTE, "depths", "seeds", description=__doc__)
    add = parser.add_argument
    for name in SHAPES:
        add(f"--{name.replace('_', '-')}", type=cli.not_negative, nargs="+", default=())
    some: Any = {"nargs": "+", "required": True}
    add("--samples", type=cli.positive_integer, help="numbers n", **some)
    add("--samples-per-dimension", type=cli.positive_number, help="n/d, left out if d < 3", **some)
    args = parser.parse_args(argv)

    cli.log.info("device cpu, float64, infinite width, samples drawn on the sphere")
    (sigma,) = activations.load(args.activation, args.activation_file).values()
    functions = interpolated_kernels.tables(sigma, args.depths)
    places = [
        (RandomPlace(shape=shape, parameter=parameter, n=n, d=round(n / ratio)), seed)
        for n, ratio in product(args.samples, args.samples_per_dimension)
        for shape in SHAPES
        for parameter, seed in product(vars(args)[shape], args.seeds)
        if n / ratio >= 3
    ]
    rows = []
    for place, seed in progress(places, unit="place"):
        rows += [*measure(place, sigma, functions, seed=seed)]
    tables.write(args.output, "phase", rows)
