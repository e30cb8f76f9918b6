"""Measure the angles between the gradients of a layer's neurons, before and after training.

All widths of one architecture (liu2022transition, Appendix B).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from ntk_conditioning.tables.orthogonality import ORTHOGONALITY
from ntk_conditioning.transition.descent import descend
from ntk_conditioning.transition.gradients import layer_angles
from ntk_workflow.cli import run_main
from ntk_workflow.rows.widths import assembly_parser, each_width


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = assembly_parser(__doc__).parse_args(argv)
    for name, networks, rows in each_width(args, ORTHOGONALITY, program=__file__):
        for network in networks:
            x, y = network.samples.x, network.samples.y
            found = descend(network.assembly, x, y, steps=args.steps, rate=args.rate)
            moments = (
                (False, 0, found.loss_before, network.assembly),
                (True, args.steps, found.loss_after, found.trained),
            )
            common = name | {"seed": network.seed, "n": len(x), "d": network.assembly.fan_ins[0]}
            for trained, steps, loss, assembly in moments:
                for angles in layer_angles(assembly, x):
                    own = asdict(angles)
                    own["layer_width"] = own.pop("width")
                    rows.append(common | own | {"trained": trained, "steps": steps, "loss": loss})
    return 0


if __name__ == "__main__":
    sys.exit(main())
