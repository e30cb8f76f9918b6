"""Measure kernels of networks of many architectures at initialisation, along depth.

All on the same samples, which are scaled to one norm: 1 for networks that take vectors and, for
those that take images, such that a pixel's colours together have mean square 1.
"""

import math
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import tables
from ntk_conditioning.data.subsets import draw_on_sphere
from ntk_conditioning.files import sha256
from ntk_conditioning.kernels import EMPIRICAL, infinite_models
from ntk_conditioning.kernels.modules import ntk
from ntk_conditioning.networks import own
from ntk_conditioning.networks.architectures import MODELS
from ntk_conditioning.networks.mlp import MLP
from ntk_conditioning.spectra.conditioning import conditioning
from ntk_workflow import cli
from ntk_workflow.checkpoints.cells import Checkpoints
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.samples import load_samples
from ntk_workflow.trainings.networks import initial_network, takes_images

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    options = (*cli.ROW, "data", "samples", "sample-seed", "seeds")
    parser = cli.Parser(*options, description=__doc__)
    add = parser.add_argument
    help = "height, width and colours of a sample, for networks of images"
    add("--image", type=cli.positive_integer, nargs=3, help=help)
    help = "a kind of network, its width and its depths; repeated"
    add("--network", nargs="+", action="append", default=[], help=help)
    help = "name of a network that is not built in, and the function that builds it; repeated"
    own_metavar = ("NAME", "FILE", "FUNCTION")
    add("--own-network", nargs=3, action="append", default=[], metavar=own_metavar, help=help)
    add("--infinite-width", nargs="*", default=[], help="networks that are also infinitely wide")
    args = parser.parse_args(argv)

    cli.limit_threads(args.threads)
    sigmas = load_activations(args.activation, args.activation_file)
    own_models = {name: own.load(file, function) for name, file, function in args.own_network}
    networks = []
    for name, *numbers in args.network:
        if len(numbers) < 2 or not all(map(str.isdecimal, numbers)):
            raise cli.UsageError(f"--network {name}: give its width and its depths")
        if name not in {*MODELS, *own_models}:
            known = ", ".join(MODELS)
            raise cli.UsageError(f"--network {name}: give its --own-network; built in are {known}")
        networks += [(name, int(numbers[0]), int(depth)) for depth in numbers[1:]]
    image = tuple(args.image) if args.image else None
    data = load_samples(args.data).x
    x = draw_on_sphere(args.dataset, data, args.samples, seed=args.sample_seed)
    log.info("device cpu, float64, %d samples of %d features", *x.shape)
    checkpoints = Checkpoints(args.checkpoints, "architectures")
    given = {"code": args.code, "data": sha256(args.data), "image": image}
    given |= {"samples": args.samples, "sample_seed": args.sample_seed}
    sizes = {"n": len(x), "d": x.shape[1]}
    rows = []
    for (model, width, depth), activation, seed in product(networks, sigmas, args.seeds):
        names = {"kernel": EMPIRICAL, "dataset": args.dataset, "model": model}
        names |= {"activation": activation, "width": width, "depth": depth, "seed": seed}
        mine = own_models.get(model)
        cell = names | given | {"function": mine and mine.function}
        if (done := checkpoints.read(cell)) is None:
            kind: Any = {"depth": depth, "width": width, "activation": sigmas[activation]}
            kind |= {"image": image, "own": mine}
            network, seen = initial_network(model, scaled(x, model, image), seed=seed, **kind)
            weights = network.weights if isinstance(network, MLP) else network.parameters()
            parameters = {"parameters": sum(weight.numel() for weight in weights)}
            done = [names | sizes | parameters | measured(ntk(network, seen).numpy())]
            checkpoints.write(cell, done)
        rows += done
    for model, (activation, sigma) in product(args.infinite_width, sigmas.items()):
        depths = sorted({depth for name, _, depth in networks if name == model})
        kernels: dict[int, NDArray[np.float64]] = {}  # of all depths, once one is needed
        for depth in depths:
            names = {"kernel": "infinite_ntk", "dataset": args.dataset, "model": model}
            names |= {"activation": activation, "width": None, "depth": depth, "seed": None}
            if (done := checkpoints.read(names | given)) is None:
                kernels = kernels or infinite_models.ntks(
                    model, scaled(x, model, image), image=image, depths=depths, activation=sigma
                )
                done = [names | sizes | {"parameters": None} | measured(kernels[depth])]
                checkpoints.write(names | given, done)
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
