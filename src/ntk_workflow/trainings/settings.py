"""The settings of a training: those of an experiment as they hold for one network."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

from ntk_conditioning.networks.architectures import kind_of
from ntk_conditioning.training.descent import AUTO_RATES, Augmentation, Descent, rounded_down
from ntk_workflow import cli
from ntk_workflow.cli_networks import own_network_arguments
from ntk_workflow.settings import from_mapping

#: The learning rate of each network, by its seed and the rate as the settings give it.
Rates = Mapping[tuple[int, float], float]


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How networks are trained and evaluated; see schemas/config.schema.yaml for each key.

    ``rate_unit`` says what ``learning_rates`` are multiples of: one, each seed's own critical rate,
    or the smallest of these, over ``critical_seeds`` if there are any.
    """

    width: int = 512
    seeds: tuple[int, ...] = (1, 32, 111, 555, 666)
    samples: int | Literal["all"] = "all"
    test_share: float = 0.0
    input_scale: Literal["none", "fan_in"] = "none"
    image: tuple[int, int, int] | None = None
    loss: Literal["cross_entropy", "square"] = "cross_entropy"
    outputs: Literal["classes", "scalar"] = "classes"
    batch_size: int | Literal["all"] = 500
    epochs: int
    evaluate_every: int = 1
    learning_rates: tuple[float, ...]
    rate_unit: Literal["one", "critical", "smallest_critical"] = "one"
    critical_seeds: tuple[int, ...] = ()
    dtype: Literal["float32", "float64"] = "float32"
    tf32: bool = False
    momentum: float = 0.0
    weight_decay: float = 0.0
    decay_at: tuple[int, ...] = ()
    decay_factor: float = 0.1
    augmentation: Augmentation = "none"
    mixed_precision: bool = False
    kernels_along: tuple[int, int] | None = None

    def absolute_rates(self, critical: Mapping[int, float]) -> Rates:
        """Return the learning rate of every network, from the ``critical`` rate of each seed."""
        networks = [*product(self.seeds, sorted(self.learning_rates))]
        if self.rate_unit == "one":
            return {(seed, rate): rate for seed, rate in networks}
        if self.rate_unit == "smallest_critical":
            critical = dict.fromkeys(self.seeds, min(critical.values()))
        return {(seed, rate): rounded_down(rate * critical[seed]) for seed, rate in networks}

    def has_initial_kernel(self, model: str) -> bool:
        """Return whether the NTK where a model's training begins is a part of the training.

        That of torch's modules takes as long as a small training, and is made if it is needed.
        """
        return not kind_of(model).by_modules or self.rate_unit != "one"

    @property
    def descent(self) -> Descent:
        """How the networks descend."""
        return from_mapping(Descent, vars(self))

    @classmethod
    def from_config(
        cls, values: Mapping[str, Any], *, image: tuple[int, int, int] | None = None
    ) -> TrainingSettings:
        """Return the settings from an experiment's keys as they hold for one network.

        The order of seeds and rates, and 1 for 1.0, make no difference.
        """
        rates, unit = values["learning_rates"], "one"
        if rates == "auto":
            rates, unit = AUTO_RATES[values["loss"]], "critical"
        elif isinstance(rates, Mapping):
            ((unit, rates),) = rates.items()
        along = values.get("kernels_along")
        given = {k: float(v) if k in _NUMBERS else v for k, v in values.items()}
        given |= {"learning_rates": sorted(map(float, rates)), "rate_unit": unit, "image": image}
        given |= {k: sorted(values[k]) for k in ("seeds", "decay_at") if k in values}
        given["kernels_along"] = along and (along["samples"], along["points"])
        return from_mapping(cls, given)


_NUMBERS = ("test_share", "momentum", "weight_decay", "decay_factor")


def training_parser(description: str | None) -> cli.Parser:
    """Return a parser with a job's network, its samples and settings, and threads.

    Settings that are not given are left to `TrainingSettings`.
    """
    parser = cli.Parser("activation-file", "threads", description=description)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared training samples, whole (.npz)")
    add("--experiment", required=True, help="name written into the table")
    add("--dataset", required=True, help="name written into the table")
    add("--model", default="mlp", help="kind of network (default: mlp)")
    add("--activation", required=True, help="name of the activation")
    own_network_arguments(parser)

    seed, count, rate = cli.seed, cli.positive_integer, cli.positive_number
    add = partial(parser.add_argument, default=argparse.SUPPRESS)
    add("--width", type=count, help="units or channels per layer, of a resnet the first channels")
    add("--seeds", type=seed, nargs="+", help="seeds, a network for each")
    count_or_all = cli.positive_integer_or_all
    add("--samples", type=count_or_all, help="samples that every seed draws for itself, or all")
    add("--test-share", type=cli.share, help="share of the samples that a seed holds out for tests")
    help = "fan_in multiplies samples by sqrt(2/d), as the first layer of the published code"
    add("--input-scale", choices=["none", "fan_in"], help=help)
    add("--image", type=count, nargs=3, help="height, width and colours of a sample")
    help = "cross_entropy, or half the squared distance from the target"
    add("--loss", choices=["cross_entropy", "square"], help=help)
    help = "one for each class, or one whose targets lie evenly from -1 to 1"
    add("--outputs", choices=["classes", "scalar"], help=help)
    add("--batch-size", type=count_or_all, help="samples per step, or all")
    add("--epochs", type=count, required=True, help="passes over the samples")
    add("--evaluate-every", type=count, help="epochs between evaluations")
    add("--learning-rates", type=rate, nargs="+", required=True, help="rates to try")
    help = "what they are multiples of: one, each seed's own critical rate, or the smallest"
    add("--rate-unit", choices=["one", "critical", "smallest_critical"], help=help)
    help = "seeds of which smallest_critical is the smallest; without them those of --seeds"
    add("--critical-seeds", type=seed, nargs="+", help=help)
    add("--dtype", choices=["float32", "float64"], help="precision")
    add("--tf32", action="store_true", help="let a GPU round products to TF32")
    add("--momentum", type=cli.share, help="share of the last step in the next")
    help = "share of the weights that is added to their gradient"
    add("--weight-decay", type=cli.not_negative, help=help)
    add("--decay-at", type=count, nargs="+", help="epochs after which the rate is multiplied")
    add("--decay-factor", type=rate, help="by this")
    add("--augmentation", choices=get_args(Augmentation), help="of training images")
    add("--mixed-precision", action="store_true", help="take products of bfloat16")
    help = "samples of the kernels that are measured along training, and epochs at which they are"
    add("--kernels-along", type=count, nargs=2, help=help)
    return parser
