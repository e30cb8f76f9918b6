"""Measure kernels of networks of many architectures at initialisation, along depth.

All on the same samples, which are scaled to equal norm: 1 for networks that take vectors and, for
those that take images, such that a pixel's colours together have mean square 1.
"""

import math
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.data.subsets import draw_on_sphere
from ntk_conditioning.files import sha256
from ntk_conditioning.kernels import EMPIRICAL, infinite_models
from ntk_conditioning.kernels.modules import ntk
from ntk_conditioning.networks import activations, user_models
from ntk_conditioning.networks.mlp import MLP
from ntk_conditioning.spectra.condition_numbers import conditioning
from ntk_workflow import cli
from ntk_workflow.checkpoints import Checkpoints
from ntk_workflow.trainings.networks import initial_network, takes_images


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


@cli.program
def main(argv: cli.Argv = None) -> None:
    options = (*cli.ROW, "data", "samples", "sample-seed", "seeds")
    parser = cli.Parser(*options, description=__doc__)
    add = parser.add_argument
    add("--image", type=int, nargs=3, help="height, width and colours of a sample")
    add("--network", nargs="+", action="append", required=True, help="name, width, depths ...")
    add("--own-network", nargs=3, action="append", default=[], help="name, file and function")
    add("--infinite-width", nargs="*", default=[], help="networks that are also infinitely wide")
    args = parser.parse_args(argv)

    sigmas = activations.load(args.activation, args.activation_file)
    own_models = {n: user_models.load(file, function) for n, file, function in args.own_network}
    networks = [(name, int(width), int(d)) for name, width, *depths in args.network for d in depths]
    image = tuple(args.image) if args.image else None
    data = load_prepared(args.data).x
    x = draw_on_sphere(args.dataset, data, args.samples, seed=args.sample_seed)
    images = x * math.sqrt(math.prod(image[:2])) if image else x
    cli.log.info("device cpu, float64, %d samples of %d features", *x.shape)
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
            scaled = images if takes_images(model) else x
            network, seen = initial_network(model, scaled, seed=seed, **kind)
            weights = network.weights if isinstance(network, MLP) else network.parameters()
            parameters = {"parameters": sum(weight.numel() for weight in weights)}
            done = [names | sizes | parameters | measured(ntk(network, seen).numpy())]
            checkpoints.write(cell, done)
        rows += done
    for model, (activation, sigma) in product(args.infinite_width, sigmas.items()):
        depths = sorted({depth for name, _, depth in networks if name == model})
        names = {"kernel": "infinite_ntk", "dataset": args.dataset, "model": model}
        names |= {"activation": activation, "width": None, "seed": None, "parameters": None}
        cell = names | given | {"depths": depths}
        if (done := checkpoints.read(cell)) is None:
            how: Any = {"image": image, "depths": depths, "activation": sigma}
            kernels = infinite_models.ntks(model, images if takes_images(model) else x, **how)
            done = [names | sizes | {"depth": n} | measured(k) for n, k in kernels.items()]
            checkpoints.write(cell, done)
        rows += done
    tables.write(args.output, "architectures", rows)
