"""Place samples of a dataset on the map of conditioning, and measure what depth does to them."""

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.kernels import interpolated_kernels
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.phase_diagram import DataPlace, measure
from ntk_workflow import cli


@cli.program
def main(argv: cli.Argv = None) -> None:
    options = (*cli.COMPUTE, "data", "dataset", "samples", "depths", "seeds")
    args = cli.Parser(*options, description=__doc__).parse_args(argv)

    x = load_prepared(args.data).x
    cli.log.info("device cpu, float64, infinite width, n %d, d %d", *x.shape)
    place = DataPlace(args.dataset, x, min(args.samples, len(x)))
    rows = []
    for sigma in activations.load(args.activation, args.activation_file).values():
        functions = interpolated_kernels.tables(sigma, args.depths)
        for seed in args.seeds:
            rows += [*measure(place, sigma, functions, seed=seed)]
    tables.write(args.output, "phase", rows)
