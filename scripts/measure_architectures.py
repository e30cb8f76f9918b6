"""Measure kernels of networks of many architectures at initialisation, along depth.

All on the same samples, which are scaled to one norm: 1 for networks that take vectors and, for
those that take images, such that a pixel's colours together have mean square 1.
"""

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import tables
from ntk_conditioning.data.subsets import draw_on_sphere
from ntk_conditioning.files import sha256
from ntk_conditioning.kernels import EMPIRICAL, infinite_models
from ntk_conditioning.kernels.modules import ntk
from ntk_conditioning.networks.mlp import MLP
from ntk_conditioning.spectra.conditioning import conditioning
from ntk_workflow import cli
from ntk_workflow.checkpoints.cells import Checkpoints
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.cli_networks import architectures_arguments, load_architectures
from ntk_workflow.rows import row_parser
from ntk_workflow.samples import load_samples
from ntk_workflow.trainings.networks import initial_network, takes_images

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser, positive = row_parser(__doc__), cli.positive_integer
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared dataset (.npz)")
    help = "height, width and colours of a sample, for networks of images"
    add("--image", type=positive, nargs=3, help=help)
    architectures_arguments(parser)
    add("--infinite-width", nargs="*", default=[], help="networks that are also infinitely wide")
    add("--samples", type=positive, required=True, help="samples of a kernel")
    add("--sample-seed", type=cli.seed, default=1, help="seed that draws the samples")
    add("--seeds", type=cli.seed, nargs="+", required=True, help="seeds of the initialisations")
    args = parser.parse_args(argv)

    cli.limit_threads(args.threads)
    sigmas = load_activations(args.activation, args.activation_file)
    networks = load_architectures(args.network, args.own_network)
    image = tuple(args.image) if args.image else None
    data = load_samples(args.data).x
    x = draw_on_sphere(args.dataset, data, args.samples, seed=args.sample_seed)
    log.info("device cpu, float64, %d samples of %d features", *x.shape)
    checkpoints = Checkpoints(args.checkpoints, "architectures")
    kernel = {
        "code": args.code,  # with the user's own networks
        "data": sha256(args.data),
        "samples": args.samples,
        "sample_seed": args.sample_seed,
        "image": image,
    }
    rows = []
    for network in networks:
        axes = product(network.depths, sigmas.items(), args.seeds)
        for depth, (activation, sigma), seed in axes:
            names = {
                "kernel": EMPIRICAL,
                "dataset": args.dataset,
                "model": network.name,
                "activation": activation,
                "width": network.width,
                "depth": depth,
                "seed": seed,
            }
            cell = names | kernel | {"function": network.own and network.own.function}
            if (done := checkpoints.read(cell)) is None:
                net, samples = initial_network(
                    network.name,
                    scaled(x, network.name, image),
                    seed=seed,
                    depth=depth,
                    width=network.width,
                    image=image,
                    activation=sigma,
                    own=network.own,
                )
                weights = net.weights if isinstance(net, MLP) else net.parameters()
                parameters = sum(weight.numel() for weight in weights)
                sizes = {"n": len(x), "d": x.shape[1], "parameters": parameters}
                done = [names | sizes | measured(ntk(net, samples).numpy())]
                checkpoints.write(cell, done)
            rows += done
    for model, (activation, sigma) in product(args.infinite_width, sigmas.items()):
        depths = sorted({depth for one in networks if one.name == model for depth in one.depths})
        kernels: dict[int, NDArray[np.float64]] = {}  # of all depths, once one is needed
        for depth in depths:
            names = {
                "kernel": "infinite_ntk",
                "dataset": args.dataset,
                "model": model,
                "activation": activation,
                "width": None,
                "depth": depth,
                "seed": None,
            }
            cell = names | kernel
            if (done := checkpoints.read(cell)) is None:
                kernels = kernels or infinite_models.ntks(
                    model, scaled(x, model, image), image=image, depths=depths, activation=sigma
                )
                sizes = {"n": len(x), "d": x.shape[1], "parameters": None}
                done = [names | sizes | measured(kernels[depth])]
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "architectures", rows)


def scaled(
    x: NDArray[np.float64], model: str, image: tuple[int, ...] | None
) -> NDArray[np.float64]:
    """Return samples of norm 1 at the norm that they have for a network."""
    pixels = math.prod(image[:2]) if image and takes_images(model) else 1
    return np.asarray(x * math.sqrt(pixels))


def measured(k: NDArray[np.float64]) -> dict[str, Any]:
    """Return the columns of a kernel (n, n)."""
    found, norms = conditioning(k), np.sqrt(np.diag(k))
    cosines = k / np.outer(norms, norms)
    np.fill_diagonal(cosines, -1.0)
    names = ("lambda_max", "resolution_floor", "numerical_rank", "kappa", "kappa_error")
    return {name: getattr(found, name) for name in names} | {
        "lambda_min": found.lambda_min if found.kappa else None,
        "mean_diagonal": float(np.diag(k).mean()),
        "min_angle": math.degrees(math.acos(min(1.0, cosines.max()))),
    }


if __name__ == "__main__":
    raise SystemExit(main())
