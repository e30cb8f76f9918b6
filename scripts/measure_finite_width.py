"""Measure how kappa spreads over random networks of finite width, and how far infinite width is."""

import math
from dataclasses import asdict
from itertools import product
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.data.subsets import draw_on_sphere
from ntk_conditioning.files import sha256
from ntk_conditioning.kernels.along_depth import along_depth
from ntk_conditioning.kernels.sampled import sampled_ntks
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.spike_and_bulk import spike_and_bulk
from ntk_conditioning.theory.finite_width import spread
from ntk_workflow import cli
from ntk_workflow.checkpoints.cells import Checkpoints
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.samples import load_samples


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    options = (*cli.ROW, "data", "sample-seed", "widths", "depths", "seeds")
    parser, positive = cli.Parser(*options, description=__doc__), cli.positive_integer
    add = parser.add_argument
    add("--samples", type=positive, nargs="+", required=True, help="sizes n of kernels")
    add("--networks", type=positive, required=True, help="networks of each kind and seed")
    args = parser.parse_args(argv)

    sigmas = load_activations(args.activation, args.activation_file)
    data = load_samples(args.data).x
    x = draw_on_sphere(args.dataset, data, max(args.samples), seed=args.sample_seed)
    cli.log.info("device cpu, float64, up to %d samples of %d features", *x.shape)
    checkpoints = Checkpoints(args.checkpoints, "finite_width")
    given = {"code": args.code, "data": sha256(args.data), "samples": args.samples}
    given |= {"sample_seed": args.sample_seed, "networks": args.networks}
    rows = []
    for activation, sigma in sigmas.items():
        infinite: dict[int, dict[int, float | None]] = {}  # kappa by samples and depth, if needed
        for width, depth, seed in product(args.widths, args.depths, args.seeds):
            if depth > width:
                continue
            names = {"dataset": args.dataset, "activation": activation}
            size = {"width": width, "depth": depth}
            cell = names | size | {"seed": seed} | given
            if (done := checkpoints.read(cell)) is None:
                done = []
                for number, n in enumerate(args.samples, start=1):
                    if n not in infinite:
                        infinite[n] = {}
                        for layer in along_depth(x[:n], depths=args.depths, activation=activation):
                            found = spike_and_bulk(layer.ntk.distances, error=layer.ntk.error)
                            infinite[n][layer.depth] = found.kappa
                    kappa = infinite[n][depth]
                    draw: Any = {"networks": args.networks, "activation": sigma}
                    rng = generator(seed, "init", number)
                    kernels = sampled_ntks(x[:n], **size, **draw, generator=rng)
                    measured = asdict(spread(kernels)) | {"infinite": kappa and math.log(kappa)}
                    done.append(names | size | {"seed": seed, "n": n, "d": x.shape[1]} | measured)
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "finite_width", rows)


if __name__ == "__main__":
    raise SystemExit(main())
