"""Measure how far networks are from linear in their weights: Hessian, quadratic term, NTK's change.

All widths of one architecture (liu2022transition, Theorems 1 and 4, Appendices D and E).
"""

from itertools import product

from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_conditioning.networks import activations
from ntk_conditioning.transition.feedforward import descend
from ntk_conditioning.transition.linearisation import linearity
from ntk_workflow import cli
from ntk_workflow.checkpoints import Checkpoints
from ntk_workflow.devices import torch_device
from ntk_workflow.rows.widths import drawn_network, two_classes


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(*cli.WIDE, description=__doc__)
    add, positive = parser.add_argument, cli.positive_integer
    add("--steps", type=cli.count_from_zero, required=True, help="steps of gradient descent")
    add("--radii", type=cli.positive_number, nargs="+", required=True, help="radii of the balls")
    add("--expansions", type=positive, default=1, help="samples to expand the network at")
    add("--directions", type=positive, required=True, help="random directions")
    args = parser.parse_args(argv)

    activations.load(args.activation, args.activation_file)
    device = torch_device(args.device).type
    given = {"samples": args.samples, "classes": args.classes, "sample_seed": args.sample_seed}
    samples, y = two_classes(args.data, args.dataset, **given)
    cli.log.info("device %s, float64, %d samples of %d features", device, *samples.shape)
    checkpoints = Checkpoints(args.checkpoints, "linearity")
    given |= {"code": args.code, "data": sha256(args.data), "device": device, "dense": args.dense}
    given |= {"step_size": args.step_size, "steps": args.steps, "expansions": args.expansions}
    ball = {"radii": args.radii, "directions": args.directions}
    rows = []
    for activation, width, seed in product(args.activation, args.widths, args.seeds):
        hidden = [width if fixed == "m" else int(fixed) for fixed in args.hidden]
        names = {"dataset": args.dataset, "architecture": args.architecture, "width": width}
        names |= {"activation": activation, "seed": seed, "hidden": "-".join(map(str, hidden))}
        cell = names | given | ball
        if (done := checkpoints.read(cell)) is None:
            kind = {"activation": activation, "dense": args.dense}
            net, x = drawn_network(samples, hidden, **kind, seed=seed, device=device)
            how = {"steps": [args.steps], "step_size": args.step_size}
            ((_, trained),) = descend(net, x, y.to(device), **how)
            chosen = x[:: max(1, len(x) // args.expansions)][: args.expansions]
            largest_weight = float(net.weights[-1].abs().max())  # of the last layer
            parameters = sum(weight.numel() for weight in net.weights)
            names |= {"largest_weight": largest_weight, "parameters": parameters}
            names |= {"samples": len(chosen), "d": net.fan_ins[0], **trained}
            done = [names | radius for radius in linearity(net, chosen, **ball, seed=seed)]
            checkpoints.write(cell, done)
        rows += done
    tables.write(args.output, "linearity", rows)
