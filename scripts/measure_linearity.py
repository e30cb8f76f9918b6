"""Measure how far networks are from linear in their weights: Hessian, quadratic term, NTK's change.

All widths of one architecture (liu2022transition, Theorems 1 and 4, Appendices D and E).
"""

from collections.abc import Iterator
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.transition.linearity import largest_weight, linearity
from ntk_workflow.cli import Argv, count_from_zero, positive_integer, positive_number, run_main
from ntk_workflow.rows.widths import Network, study_parser, write_widths


@run_main
def main(argv: Argv = None) -> None:
    parser = study_parser(__doc__)
    add = parser.add_argument
    add("--steps", type=count_from_zero, default=100, help="steps of gradient descent")
    add("--radii", type=positive_number, nargs="+", required=True, help="radii of the balls")
    add("--expansions", type=positive_integer, default=1, help="samples to expand the network at")
    add("--directions", type=positive_integer, default=10, help="random directions")
    args = parser.parse_args(argv)

    def compute(network: Network) -> Iterator[dict[str, Any]]:
        net, x, (descent,) = network.net, network.x, network.descend(1.0, [args.steps])
        chosen = x[:: max(1, len(x) // args.expansions)][: args.expansions]
        common = {
            "samples": len(chosen),
            "parameters": net.parameters,
            "largest_weight": largest_weight(net),
            "steps": args.steps,
            "loss_before": descent.loss_before,
            "loss_after": descent.loss_after,
            "kernel_change": descent.kernel_change,
            "distance": descent.distance,
        }
        search = {"radii": args.radii, "directions": args.directions, "seed": network.seed}
        for of_radius in linearity(net, chosen, **search):
            yield common | of_radius

    write_widths(args, tables.get("linearity"), compute, program=__file__)


if __name__ == "__main__":
    raise SystemExit(main())
