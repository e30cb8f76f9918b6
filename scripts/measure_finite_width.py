"""Measure how kappa spreads over random networks of finite width, and how far infinite width is."""

import math
from itertools import product
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.data.subsets import draw_on_sphere
from ntk_conditioning.files import sha256
from ntk_conditioning.kernels.depth_profiles import along_depth
from ntk_conditioning.kernels.sampled import sampled_ntks
from ntk_conditioning.networks import activations
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.spikes import spike_and_bulk
from ntk_conditioning.theory.finite_width import spread
from ntk_workflow import cli
from ntk_workflow.checkpoints import Checkpoints


@cli.program
def main(argv: cli.Argv = None) -> None:
    options = (*cli.ROW, "data", "sample-seed", "widths", "depths", "seeds")
    parser, positive = cli.Parser(*options, description=__doc__), cli.positive_integer
    add = parser.add_argument
    add("--samples", type=positive, nargs="+", required=True, help="sizes n of kernels")
    add("--networks", type=positive, required=True, help="networks of each kind and seed")
    args = parser.parse_args(argv)

    data = load_prepared(args.data).x
    x = draw_on_sphere(args.dataset, data, max(args.samples), seed=args.sample_seed)
    cli.log.info("device cpu, float64, up to %d samples of %d features", *x.shape)
    checkpoints = Checkpoints(args.checkpoints, "finite_width")
    given = {"code": args.code, "data": sha256(args.data), "samples": args.samples}
    given |= {"sample_seed": args.sample_seed, "networks": args.networks}
    rows = []
    for activation, sigma in activations.load(args.activation, args.activation_file).items():
        infinite = {}  # kappa by samples and depth
        for n in args.samples:
            for layer in along_depth(x[:n], depths=args.depths, activation=activation):
                parts = spike_and_bulk(layer.ntk.distances, error=layer.ntk.error)
                infinite[n, layer.depth] = parts.kappa
        for width, depth, seed in product(args.widths, args.depths, args.seeds):
            if depth > width:
                continue
            size = {"width": width, "depth": depth}
            names = {"dataset": args.dataset, "activation": activation, "seed": seed} | size
            cell = names | given
            if (done := checkpoints.read(cell)) is None:
                done = []
                for number, n in enumerate(args.samples, start=1):
                    draw: Any = {"networks": args.networks, "activation": sigma}
                    rng = generator(seed, "init", number)
                    measured = spread(sampled_ntks(x[:n], **size, **draw, generator=rng))
                    measured["infinite"] = (kappa := infinite[n, depth]) and math.log(kappa)
                    done.append(names | {"n": n, "d": x.shape[1]} | measured)
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "finite_width", rows)
