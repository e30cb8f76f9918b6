"""Measure the angles between the gradients of a layer's neurons, before and after training.

All widths of one architecture (liu2022transition, Appendix B).
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.transition.feedforward import FeedforwardNet
from ntk_conditioning.transition.gradients import layer_angles
from ntk_workflow.cli import Argv, positive_integer, positive_number, run_main
from ntk_workflow.rows.widths import Network, study_parser, write_widths


@run_main
def main(argv: Argv = None) -> None:
    parser = study_parser(__doc__)
    help = "each network is measured after these numbers of steps of gradient descent"
    parser.add_argument("--steps", type=positive_integer, nargs="+", default=[100], help=help)
    help = "trains on labels plus and minus each of these numbers"
    parser.add_argument("--label-scales", type=positive_number, nargs="+", default=[1.0], help=help)
    args = parser.parse_args(argv)

    def compute(network: Network) -> Iterator[dict[str, Any]]:
        yield from rows(network, network.net, label_scale=0.0, steps=0, loss=None)
        for scale in args.label_scales:
            for descent in network.descend(scale, args.steps):
                loss = descent.loss_after / descent.loss_before
                trained = {"label_scale": scale, "steps": descent.steps, "loss": loss}
                yield from rows(network, descent.trained, **trained)

    write_widths(args, tables.get("orthogonality"), compute, program=__file__)


def rows(network: Network, net: FeedforwardNet, **common: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of all layers of a network before or after its training."""
    for angles in layer_angles(net, network.x):
        columns = asdict(angles)
        columns["layer_width"] = columns.pop("width")
        yield columns | {"n": len(network.x)} | common


if __name__ == "__main__":
    raise SystemExit(main())
