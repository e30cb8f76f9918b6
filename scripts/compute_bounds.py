"""Compare kernels of infinite width along depth with the bounds of agarwal2021deep."""

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.networks import activations
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import draw_blocks
from ntk_conditioning.theory.bounds_vs_exact import compare
from ntk_workflow import cli


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(*cli.COMPUTE, "data", "dataset", "depths", description=__doc__)
    add, count = parser.add_argument, cli.positive_integer_or_all
    add("--samples", type=count, required=True, help="samples drawn, or all")
    add("--seed", type=cli.seed, default=1, help="seed of the draw")
    args = parser.parse_args(argv)

    x, rng = load_prepared(args.data).x, generator(args.seed, "blocks")
    (block,) = draw_blocks(len(x), size=args.samples, count=1, generator=rng)
    cli.log.info("device cpu, float64, infinite width, %d samples", len(block))
    rows = []
    for name, sigma in activations.load(args.activation, args.activation_file).items():
        labels = {"dataset": args.dataset, "activation": name}
        rows += [row | labels for row in compare(x[block], depths=args.depths, activation=sigma)]
    tables.write(args.output, "bounds", rows)
