"""Measure kernels of networks of many architectures at initialisation, along depth.

All on the same samples, which are scaled to one norm: 1 for networks that take vectors and, for
those that take images, such that a pixel's colours together have mean square 1.
"""

import math
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import tables
from ntk_conditioning.data.subsets import draw_on_sphere
from ntk_conditioning.kernels import EMPIRICAL, infinite_models
from ntk_conditioning.kernels.modules import ntk
from ntk_conditioning.networks.mlp import MLP
from ntk_conditioning.spectra.conditioning import conditioning
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import Argv, logger, positive_integer, run_main, seed
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.cli_networks import Architecture, architectures_arguments, load_architectures
from ntk_workflow.provenance.digests import path_digest
from ntk_workflow.rows.row import row_parser, write_row
from ntk_workflow.samples import load_samples
from ntk_workflow.trainings.networks import initial_network, takes_images

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> None:
    parser = row_parser(__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared dataset (.npz)")
    help = "height, width and colours of a sample, for networks of images"
    add("--image", type=positive_integer, nargs=3, help=help)
    architectures_arguments(parser)
    add("--infinite-width", nargs="*", default=[], help="networks that are also infinitely wide")
    add("--samples", type=positive_integer, required=True, help="samples of a kernel")
    add("--sample-seed", type=seed, default=1, help="seed that draws the samples")
    add("--seeds", type=seed, nargs="+", required=True, help="seeds of the initialisations")
    args = parser.parse_args(argv)
    activations, networks = load_activations(args), load_architectures(args)
    own_networks = {one.name: one.own for one in networks}
    image = tuple(args.image) if args.image else None
    data = load_samples(args.data).x
    x = draw_on_sphere(args.dataset, data, args.samples, seed=args.sample_seed)
    log.info("device cpu, float64, %d samples of %d features", *x.shape)

    def scaled(model: str) -> NDArray[np.float64]:
        pixels = math.prod(image[:2]) if image and takes_images(model) else 1
        return np.asarray(x * math.sqrt(pixels))

    def depths_of(model: str) -> list[int]:
        return sorted({depth for one in networks if one.name == model for depth in one.depths})

    @cache
    def infinitely_wide(model: str, activation: str) -> dict[int, NDArray[np.float64]]:
        size: Any = {"depths": depths_of(model), "activation": activations[activation]}
        return infinite_models.ntks(model, scaled(model), image=image, **size)

    def compute(cell: Cell) -> Iterator[dict[str, Any]]:
        labels = {"dataset": args.dataset, "n": len(x), "d": x.shape[1]} | cell.coordinates
        if cell.seed is None:
            labels |= {"kernel": "infinite_ntk", "parameters": None}
            yield labels | measured(infinitely_wide(cell.model, cell.activation)[cell.value])
            return
        size: Any = {"depth": cell.value, "width": cell.width, "image": image}
        size |= {"activation": activations[cell.activation], "own": own_networks[cell.model]}
        seen, seed = scaled(cell.model), cell.random_seed
        network, samples = initial_network(cell.model, seen, seed=seed, **size)
        weights = network.weights if isinstance(network, MLP) else network.parameters()
        parameters = sum(weight.numel() for weight in weights)
        labels |= {"kernel": EMPIRICAL, "parameters": parameters}
        yield labels | measured(ntk(network, samples).numpy())

    cells = []
    for one in networks:
        for depth, sigma, number in product(one.depths, args.activation, args.seeds):
            of = (number, args.data, one.name, of_network(one), one.width)
            cells.append(Cell(sigma, "depth", depth, *of))
    for name in args.infinite_width:
        for depth, sigma in product(depths_of(name), args.activation):
            cells.append(Cell(sigma, "depth", depth, None, args.data, name))
    write_row(args, tables.get("architectures"), cells, compute, program=__file__)


def of_network(one: Architecture) -> tuple[Any, ...]:
    """Return what a network depends on beside its kind, its sizes and its seed."""
    return (path_digest(one.own.file), one.own.function) if one.own else ()


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
