"""Measure how far networks are from linear in their weights: Hessian, quadratic term, NTK's change.

All widths of one architecture (liu2022transition, Theorems 1 and 4, Appendices D and E).
"""

from itertools import product

from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_conditioning.transition.descent import descend
from ntk_conditioning.transition.linearity import largest_weight, linearity
from ntk_workflow import cli
from ntk_workflow.checkpoints.cells import Checkpoints
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.devices import torch_device
from ntk_workflow.rows import row_parser
from ntk_workflow.rows.widths import initial_network, study_arguments, two_classes

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser, positive = row_parser(__doc__), cli.positive_integer
    study_arguments(parser)
    add = parser.add_argument
    add("--steps", type=cli.count_from_zero, default=100, help="steps of gradient descent")
    radii = "radii of the balls"
    add("--radii", type=cli.positive_number, nargs="+", required=True, help=radii)
    add("--expansions", type=positive, default=1, help="samples to expand the network at")
    add("--directions", type=positive, default=10, help="random directions")
    args = parser.parse_args(argv)

    cli.limit_threads(args.threads)
    load_activations(args.activation, args.activation_file)
    device = torch_device(args.device)
    samples, y = two_classes(
        args.data, args.dataset, args.samples, classes=args.classes, seed=args.sample_seed
    )
    y = y.to(device)
    log.info("device %s, float64, %d samples of %d features", device.type, *samples.shape)
    checkpoints, data = Checkpoints(args.checkpoints, "linearity"), sha256(args.data)
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
            "steps": args.steps,
            "radii": args.radii,
            "expansions": args.expansions,
            "directions": args.directions,
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
            (descent,) = descend(net, x, y, steps=[args.steps], step_size=args.step_size)
            chosen = x[:: max(1, len(x) // args.expansions)][: args.expansions]
            network = {
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
            by_radius = linearity(
                net, chosen, radii=args.radii, directions=args.directions, seed=seed
            )
            done = [names | network | radius for radius in by_radius]
            checkpoints.write(cell, done)
        rows += done
    tables.write(args.output, "linearity", rows)


if __name__ == "__main__":
    raise SystemExit(main())
