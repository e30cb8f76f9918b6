"""Compare kernels of infinite width along depth with the bounds of agarwal2021deep."""

from ntk_conditioning import tables
from ntk_conditioning.data.blocks import draw_blocks
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.bounds_vs_exact import compare
from ntk_workflow import cli
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.samples import load_samples


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(*cli.COMPUTE, "data", "dataset", "depths", description=__doc__)
    add, count = parser.add_argument, cli.positive_integer_or_all
    add("--samples", type=count, required=True, help="samples drawn, or all")
    add("--seed", type=cli.seed, default=1, help="seed of the draw")
    args = parser.parse_args(argv)

    sigmas = load_activations(args.activation, args.activation_file)
    x, rng = load_samples(args.data).x, generator(args.seed, "blocks")
    (block,) = draw_blocks(len(x), size=args.samples, count=1, generator=rng)
    cli.log.info("device cpu, float64, infinite width, %d samples", len(block))
    rows = []
    for name, sigma in sigmas.items():
        labels = {"dataset": args.dataset, "activation": name}
        rows += [labels | row for row in compare(x[block], depths=args.depths, activation=sigma)]
    tables.write(args.output, "bounds", rows)


if __name__ == "__main__":
    raise SystemExit(main())
