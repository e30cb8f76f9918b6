"""Measure the kernels of networks of many architectures at initialisation, along depth.

All on the same samples, which are scaled to one norm: 1 for networks that take vectors and, for
those that take images, a mean square of 1 for a pixel's colours together.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ntk_conditioning.angles.pairs import require_directions
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.data.subsets import draw, seed_stream
from ntk_conditioning.kernels import EMPIRICAL, infinite_models
from ntk_conditioning.kernels.modules import ntk
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.statistics import freeze_statistics
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import conditioning
from ntk_conditioning.tables.architectures import ARCHITECTURES
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import Argv, logger, positive_integer, run_main, seed
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.cli_networks import architectures_argument, load_networks
from ntk_workflow.rows.row import row_parser, write_row

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> None:
    parser = row_parser(__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared dataset (.npz)")
    help = "height, width and colours of a sample, for networks of images"
    add("--image", type=positive_integer, nargs=3, help=help)
    architectures_argument(parser)
    add("--infinite-width", nargs="*", default=[], help="networks that are also infinitely wide")
    add("--samples", type=positive_integer, required=True, help="samples of a kernel")
    add("--sample-seed", type=seed, default=1, help="seed that draws the samples")
    add("--seeds", type=seed, nargs="+", required=True, help="seeds of the initialisations")
    args = parser.parse_args(argv)
    load_activations(args)
    networks = load_networks(args)
    image = tuple(args.image) if args.image else None
    data = load_prepared(args.data)
    rows = draw(args.dataset, len(data.x), args.samples, generator=seed_stream(args.sample_seed))
    x = on_sphere(data.x[rows])
    log.info("device cpu, float64, %d samples of %d features", *x.shape)

    def compute(cell: Cell) -> Iterator[dict[str, Any]]:
        activation = activations.get(cell.activation)
        network = networks[cell.model]
        labels = {"dataset": args.dataset, "n": len(x), "d": x.shape[1]} | cell.coordinates
        if cell.seed is None:
            size = {"image": image, "depth": cell.value, "activation": activation}
            k = infinite_models.ntk(network.name, scaled(x, network, image), **size)
            made = {"kernel": "infinite_ntk", "width": None, "parameters": None}
        else:
            module, k = 0, 0
            made = {"kernel": EMPIRICAL, "width": network.width, "parameters": 0}
        yield labels | made | measured(k)

    cells = []
    write_row(args, ARCHITECTURES, cells, compute, program=__file__)


def measured(k: NDArray[np.float64]) -> dict[str, Any]:
    """Return the columns of a kernel (n, n)."""
    found, diagonal = conditioning(k), np.sqrt(np.diag(k))
    cosines = k / np.outer(diagonal, diagonal)
    np.fill_diagonal(cosines, -1.0)
    names = ("lambda_max", "resolution_floor", "numerical_rank", "kappa", "kappa_error")
    return {name: getattr(found, name) for name in names} | {
        "lambda_min": found.lambda_min if found.kappa else None,
        "mean_diagonal": float(np.mean(np.diag(k))),
        "min_angle": math.degrees(math.acos(min(1.0, cosines.max()))),
    }


if __name__ == "__main__":
    raise SystemExit(main())
