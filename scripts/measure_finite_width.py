"""Measure how kappa spreads over random networks of finite width, and how far infinite width is."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ntk_conditioning import tables
from ntk_conditioning.data.subsets import draw_on_sphere
from ntk_conditioning.kernels.along_depth import along_depth
from ntk_conditioning.kernels.sampled import sampled_ntks
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.spike_and_bulk import spike_and_bulk
from ntk_conditioning.theory.finite_width import spread
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import Argv, logger, positive_integer, run_main, seed
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.rows.row import row_parser, write_row
from ntk_workflow.samples import load_samples

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> None:
    parser = row_parser(__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared dataset (.npz)")
    add("--samples", type=positive_integer, nargs="+", required=True, help="sizes n of kernels")
    add("--sample-seed", type=seed, default=1, help="seed that draws the samples")
    add("--widths", type=positive_integer, nargs="+", required=True, help="widths m")
    help = "hidden layers, of which those above a width are left out there"
    add("--depths", type=positive_integer, nargs="+", required=True, help=help)
    add("--networks", type=positive_integer, required=True, help="networks of each kind and seed")
    add("--seeds", type=seed, nargs="+", required=True, help="seeds of the networks")
    args = parser.parse_args(argv)
    sigmas = load_activations(args)
    data = load_samples(args.data).x
    drawn = draw_on_sphere(args.dataset, data, max(args.samples), seed=args.sample_seed)
    log.info("device cpu, float64, up to %d samples of %d features", *drawn.shape)

    @cache
    def infinite(activation: str, n: int) -> dict[int, float | None]:
        """Return kappa at infinite width by depth."""
        kernels = along_depth(drawn[:n], depths=args.depths, activation=activation)
        found = ((k.depth, spike_and_bulk(k.ntk.distances, error=k.ntk.error)) for k in kernels)
        return {depth: each.kappa for depth, each in found}

    def compute(cell: Cell) -> Iterator[dict[str, Any]]:
        size: dict[str, Any] = {"depth": cell.value, "width": cell.width}
        size |= {"activation": sigmas[cell.activation]}
        for number, n in enumerate(args.samples, start=1):
            rng = generator(cell.random_seed, "init", number)
            kernels = sampled_ntks(drawn[:n], **size, networks=args.networks, generator=rng)
            kappa = infinite(cell.activation, n)[cell.value]
            yield {
                "dataset": args.dataset,
                "activation": cell.activation,
                "n": n,
                "d": drawn.shape[1],
                "width": cell.width,
                "depth": cell.value,
                "seed": cell.seed,
                "infinite": None if kappa is None else float(np.log(kappa)),
                **asdict(spread(kernels)),
            }

    axes = product(args.widths, args.depths, args.activation, args.seeds)
    cells = [
        Cell(sigma, "depth", depth, number, args.data, width=width)
        for width, depth, sigma, number in axes
        if depth <= width
    ]
    write_row(args, tables.get("finite_width"), cells, compute, program=__file__)


if __name__ == "__main__":
    raise SystemExit(main())
