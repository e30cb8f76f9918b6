"""Measure the angles between the gradients of a layer's neurons, before and after training.

All widths of one architecture (liu2022transition, Appendix B).
"""

from itertools import product

from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_conditioning.networks import activations
from ntk_conditioning.transition.feedforward import descend
from ntk_conditioning.transition.gradients import layer_angles
from ntk_workflow import cli
from ntk_workflow.checkpoints import Checkpoints
from ntk_workflow.devices import torch_device
from ntk_workflow.rows.widths import drawn_network, two_classes


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(*cli.WIDE, description=__doc__)
    add, number = parser.add_argument, cli.positive_number
    help = "steps of gradient descent after which each network is measured"
    add("--steps", type=cli.positive_integer, nargs="+", required=True, help=help)
    add("--label-scales", type=number, nargs="+", default=[1.0], help="labels are plus or minus it")
    args = parser.parse_args(argv)

    activations.load(args.activation, args.activation_file)
    device = torch_device(args.device).type
    given = {"samples": args.samples, "classes": args.classes, "sample_seed": args.sample_seed}
    samples, y = two_classes(args.data, args.dataset, **given)
    cli.log.info("device %s, float64, %d samples of %d features", device, *samples.shape)
    checkpoints = Checkpoints(args.checkpoints, "orthogonality")
    given |= {"code": args.code, "data": sha256(args.data), "device": device}
    given |= {"dense": args.dense, "step_size": args.step_size, "trained_for": args.steps}
    given |= {"label_scales": args.label_scales}
    rows = []
    for activation, width, seed in product(args.activation, args.widths, args.seeds):
        hidden = [width if fixed == "m" else int(fixed) for fixed in args.hidden]
        names = {"dataset": args.dataset, "architecture": args.architecture, "width": width}
        names |= {"activation": activation, "seed": seed, "hidden": "-".join(map(str, hidden))}
        cell = names | given
        if (done := checkpoints.read(cell)) is None:
            kind = {"activation": activation, "dense": args.dense}
            net, x = drawn_network(samples, hidden, **kind, seed=seed, device=device)
            measured = [({"label_scale": 0.0, "steps": 0, "loss": None}, net)]
            for scale in args.label_scales:
                how = {"steps": args.steps, "step_size": args.step_size}
                for trained, numbers in descend(net, x, scale * y.to(device), **how):
                    loss = numbers["loss_after"] / numbers["loss_before"]
                    training = {"label_scale": scale, "steps": numbers["steps"], "loss": loss}
                    measured.append((training, trained))
            names |= {"n": len(x), "d": net.fan_ins[0]}
            done = []
            for training, trained in measured:
                done += [names | training | angles for angles in layer_angles(trained, x)]
            checkpoints.write(cell, done)
        rows += done
    tables.write(args.output, "orthogonality", rows)
