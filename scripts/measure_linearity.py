"""Measure how far networks are from linear in their weights: Hessian, quadratic term, NTK's change.

All widths of one architecture (liu2022transition, Theorems 1 and 4, Appendices D and E).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ntk_conditioning.tables.linearity import LINEARITY
from ntk_conditioning.transition.linearity import largest_weight, linearity
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import positive_integer, positive_number, run_main
from ntk_workflow.rows.networks import study_of, study_parser, width_cells
from ntk_workflow.rows.row import checkpoints_of, write_row


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    study = study_of(args)

    def compute(cell: Cell) -> Iterator[dict[str, Any]]:
        network = study.network(cell)
        net, x = network.net, network.x
        descent = study.descend(network)
        chosen = x[:: max(1, len(x) // args.expansions)][: args.expansions]
        common = {
            **network.labels,
            "samples": len(chosen),
            "d": net.fan_ins[0],
            "parameters": net.parameters,
            "largest_weight": largest_weight(net),
            "steps": args.steps,
            "loss_before": descent.loss_before,
            "loss_after": descent.loss_after,
            "kernel_change": descent.kernel_change,
            "distance": descent.distance,
        }
        search = {"radii": args.radii, "directions": args.directions, "seed": cell.random_seed}
        for of_radius in linearity(net, chosen, **search):
            yield common | asdict(of_radius)

    cells = width_cells(args.data, args.widths, args.seeds)
    kept = checkpoints_of(args, program=__file__)
    write_row(args.output, LINEARITY, cells, compute, checkpoints=kept)
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = study_parser(__doc__)
    add = parser.add_argument
    add("--radii", type=positive_number, nargs="+", required=True, help="radii of the balls")
    add("--expansions", type=positive_integer, default=1, help="samples to expand the network at")
    add("--directions", type=positive_integer, default=10, help="random directions")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
