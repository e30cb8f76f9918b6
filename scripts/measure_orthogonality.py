"""Measure the angles between the gradients of a layer's neurons, before and after training.

All widths of one architecture (liu2022transition, Appendix B).
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ntk_conditioning.tables.orthogonality import ORTHOGONALITY
from ntk_conditioning.transition.gradients import layer_angles
from ntk_workflow.cli import Argv, run_main
from ntk_workflow.rows.widths import Network, study_parser, write_widths


@run_main
def main(argv: Argv = None) -> None:
    args = study_parser(__doc__).parse_args(argv)

    def compute(network: Network) -> Iterator[dict[str, Any]]:
        descent, n = network.descent, len(network.x)
        for trained, steps, loss, net in (
            (False, 0, descent.loss_before, network.net),
            (True, args.steps, descent.loss_after, descent.trained),
        ):
            for angles in layer_angles(net, network.x):
                columns = asdict(angles)
                columns["layer_width"] = columns.pop("width")
                yield columns | {"n": n, "trained": trained, "steps": steps, "loss": loss}

    write_widths(args, ORTHOGONALITY, compute, program=__file__)


if __name__ == "__main__":
    raise SystemExit(main())
