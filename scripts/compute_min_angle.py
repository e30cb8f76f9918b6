"""Find the smallest gradient angle of networks of finite width over all pairs of a dataset."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ntk_conditioning import tables
from ntk_conditioning.angles.min_angle import MEMORY, min_angle
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import Argv, run_main
from ntk_workflow.rows.angles import angle_rows
from ntk_workflow.rows.blocks import available_memory, memory_argument
from ntk_workflow.rows.depths import write_depths
from ntk_workflow.rows.finite import finite_parser, networks


@run_main
def main(argv: Argv = None) -> None:
    parser = finite_parser(__doc__)
    parser.add_argument("--exclude-duplicates", action="store_true", help="leave out equal samples")
    memory_argument(parser)
    parser.set_defaults(kernel="empirical_ntk")
    args = parser.parse_args(argv)
    network = networks(args)
    # A half for the gradients; the samples and what is computed from them need the rest.
    available = available_memory(args.memory_gb, args.device)
    options: dict[str, Any] = {"memory": min(MEMORY, available // 2)}
    options["exclude_duplicates"] = args.exclude_duplicates

    def compute(cell: Cell, x: NDArray[np.float64]) -> list[dict[str, Any]]:
        mlp = network(cell, x.shape[1])
        return angle_rows(min_angle(mlp, torch.from_numpy(x).to(mlp.device), **options), x)

    write_depths(args, tables.get("angles"), compute, program=__file__)


if __name__ == "__main__":
    raise SystemExit(main())
