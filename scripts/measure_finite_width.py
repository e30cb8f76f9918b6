"""Measure how kappa spreads over random networks of finite width, and how far infinite width is."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import product

import numpy as np
from numpy.typing import NDArray

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

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    options = (*cli.ROW, "data", "sample-seed", "widths", "depths", "seeds")
    parser, positive = cli.Parser(*options, description=__doc__), cli.positive_integer
    add = parser.add_argument
    add("--samples", type=positive, nargs="+", required=True, help="sizes n of kernels")
    add("--networks", type=positive, required=True, help="networks of each kind and seed")
    args = parser.parse_args(argv)

    cli.limit_threads(args.threads)
    sigmas = load_activations(args.activation, args.activation_file)
    data = load_samples(args.data).x
    x = draw_on_sphere(args.dataset, data, max(args.samples), seed=args.sample_seed)
    log.info("device cpu, float64, up to %d samples of %d features", *x.shape)
    checkpoints = Checkpoints(args.checkpoints, "finite_width")
    given = {"code": args.code, "data": sha256(args.data), "samples": args.samples}
    given |= {"sample_seed": args.sample_seed, "networks": args.networks}
    rows = []
    for activation, sigma in sigmas.items():
        infinite: dict[int, dict[int, float | None]] = {}  # by samples and depth, once needed
        for width, depth, seed in product(args.widths, args.depths, args.seeds):
            if depth > width:
                continue
            names = {"dataset": args.dataset, "activation": activation}
            size = {"width": width, "depth": depth}
            cell = names | size | {"seed": seed} | given
            if (done := checkpoints.read(cell)) is None:
                done = []
                for number, n in enumerate(args.samples, start=1):
                    infinite[n] = infinite.get(n) or log_kappas(x[:n], args.depths, activation)
                    drawn = {
                        "networks": args.networks,
                        "generator": generator(seed, "init", number),
                    }
                    kernels = sampled_ntks(x[:n], **size, activation=sigma, **drawn)
                    measured = asdict(spread(kernels)) | {"infinite": infinite[n][depth]}
                    done.append(names | size | {"seed": seed, "n": n, "d": x.shape[1]} | measured)
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "finite_width", rows)


def log_kappas(
    x: NDArray[np.float64], depths: Sequence[int], activation: str
) -> dict[int, float | None]:
    """Return log kappa at infinite width of the samples ``x`` (n, d) by depth, None if unknown."""
    logs: dict[int, float | None] = {}
    for layer in along_depth(x, depths=depths, activation=activation):
        kappa = spike_and_bulk(layer.ntk.distances, error=layer.ntk.error).kappa
        logs[layer.depth] = None if kappa is None else float(np.log(kappa))
    return logs


if __name__ == "__main__":
    raise SystemExit(main())
