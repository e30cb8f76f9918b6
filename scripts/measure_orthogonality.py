"""Measure the angles between the gradients of a layer's neurons, before and after training.

All widths of one architecture (liu2022transition, Appendix B).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ntk_conditioning.tables.orthogonality import ORTHOGONALITY
from ntk_conditioning.transition.gradients import layer_angles
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import run_main
from ntk_workflow.rows.networks import study_of, study_parser, width_cells
from ntk_workflow.rows.row import checkpoints_of, write_row


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = study_parser(__doc__).parse_args(argv)
    study = study_of(args)

    def compute(cell: Cell) -> Iterator[dict[str, Any]]:
        network = study.network(cell)
        descent = study.descend(network)
        moments = (
            (False, 0, descent.loss_before, network.net),
            (True, args.steps, descent.loss_after, descent.trained),
        )
        common = {**network.labels, "n": len(network.x), "d": network.net.fan_ins[0]}
        for trained, steps, loss, net in moments:
            for angles in layer_angles(net, network.x):
                columns = asdict(angles)
                columns["layer_width"] = columns.pop("width")
                yield common | columns | {"trained": trained, "steps": steps, "loss": loss}

    cells = width_cells(args.data, args.widths, args.seeds)
    kept = checkpoints_of(args, program=__file__)
    write_row(args.output, ORTHOGONALITY, cells, compute, checkpoints=kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
