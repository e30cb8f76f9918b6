"""Measure the angles between the gradients of a layer's neurons, before and after training.

All widths of one architecture (liu2022transition, Appendix B).
"""

from dataclasses import asdict
from itertools import product
from typing import Any

from torch import Tensor

from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_conditioning.transition.descent import descend
from ntk_conditioning.transition.feedforward import FeedforwardNet
from ntk_conditioning.transition.gradients import layer_angles
from ntk_workflow import cli
from ntk_workflow.checkpoints.cells import Checkpoints
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.devices import torch_device
from ntk_workflow.rows import row_parser
from ntk_workflow.rows.widths import initial_network, study_arguments, two_classes

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser, number = row_parser(__doc__), cli.positive_number
    study_arguments(parser)
    add = parser.add_argument
    help = "each network is measured after these numbers of steps of gradient descent"
    add("--steps", type=cli.positive_integer, nargs="+", default=[100], help=help)
    help = "trains on labels plus and minus each of these numbers"
    add("--label-scales", type=number, nargs="+", default=[1.0], help=help)
    args = parser.parse_args(argv)

    cli.limit_threads(args.threads)
    load_activations(args.activation, args.activation_file)
    device = torch_device(args.device)
    samples, y = two_classes(
        args.data, args.dataset, args.samples, classes=args.classes, seed=args.sample_seed
    )
    y = y.to(device)
    log.info("device %s, float64, %d samples of %d features", device.type, *samples.shape)
    checkpoints, data = Checkpoints(args.checkpoints, "orthogonality"), sha256(args.data)
    rows = []
    for activation, width, seed in product(args.activation, args.widths, args.seeds):
        hidden = [given or width for given in args.hidden]
        names = {
            "dataset": args.dataset,
            "architecture": args.architecture,
            "activation": activation,
            "width": width,
            "seed": seed,
            "hidden": "-".join(map(str, hidden)),
        }
        cell = names | {
            "code": args.code,
            "data": data,
            "device": device.type,
            "samples": args.samples,
            "sample_seed": args.sample_seed,
            "classes": args.classes,
            "dense": args.dense,
            "step_size": args.step_size,
            "trained_for": args.steps,
            "label_scales": args.label_scales,
        }
        if (done := checkpoints.read(cell)) is None:
            net, x = initial_network(
                samples,
                hidden,
                activation=activation,
                dense=args.dense,
                seed=seed,
                device=device.type,
            )
            names |= {"n": len(x), "d": net.fan_ins[0]}
            training = {"label_scale": 0.0, "steps": 0, "loss": None}
            done = [names | training | layer for layer in layers(net, x)]
            for scale in args.label_scales:
                labels, size = scale * y, args.step_size
                for descent in descend(net, x, labels, steps=args.steps, step_size=size):
                    loss = descent.loss_after / descent.loss_before
                    training = {"label_scale": scale, "steps": descent.steps, "loss": loss}
                    done += [names | training | layer for layer in layers(descent.trained, x)]
            checkpoints.write(cell, done)
        rows += done
    tables.write(args.output, "orthogonality", rows)


def layers(net: FeedforwardNet, x: Tensor) -> list[dict[str, Any]]:
    """Return the columns of the layers of a network, before or after its training."""
    found = map(asdict, layer_angles(net, x))
    return [{"layer_width": layer.pop("width"), **layer} for layer in found]


if __name__ == "__main__":
    raise SystemExit(main())
