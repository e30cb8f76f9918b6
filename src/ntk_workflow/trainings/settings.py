"""The settings of a training: those of an experiment as they hold for one network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from ntk_conditioning.networks.architectures import kind_of
from ntk_conditioning.training.descent import AUTO_RATES, Augmentation, Descent, rounded_down
from ntk_workflow import cli
from ntk_workflow.cli import count_from_zero, not_negative, positive_number, seed, share
from ntk_workflow.cli import positive_integer as count
from ntk_workflow.cli import positive_integer_or_all as count_or_all
from ntk_workflow.cli_activations import activation_files_argument
from ntk_workflow.cli_networks import own_network_arguments
from ntk_workflow.settings import add_arguments, from_mapping, option

#: The learning rate of each network, by its seed and the rate as the settings give it.
Rates = Mapping[tuple[int, float], float]

#: The keys of kernels_along, in the order of its option's numbers.
ALONG = ("samples", "points")


@dataclass(frozen=True, kw_only=True)
class Family:
    """Networks of any depth, as the columns of their tables name them."""

    experiment: str = option("name written into the table")
    dataset: str = option("name written into the table")
    model: str = option("kind of network", default="mlp")
    activation: str = option("name of the activation")


@dataclass(frozen=True, kw_only=True)
class Point(Family):
    """The networks of a training."""

    depth: int = option(
        "hidden layers; of a resnet all layers, of vit blocks", type=count_from_zero
    )


@dataclass(frozen=True, kw_only=True)
class InitialSettings:
    """Networks at their initialisation, and the samples that they are trained on."""

    width: int = option(
        "units or channels per layer, of a resnet its first channels", type=count, default=512
    )
    seeds: tuple[int, ...] = option(
        "seeds, a network for each", type=seed, many=True, default=(1, 32, 111, 555, 666)
    )
    samples: int | Literal["all"] = option(
        "samples that every seed draws for itself, or all", type=count_or_all, default="all"
    )
    test_share: float = option(
        "share of the samples that every seed holds out for tests", type=share, default=0.0
    )
    input_scale: Literal["none", "fan_in"] = option(
        "fan_in multiplies samples by sqrt(2/d), as the first layer of the published code",
        default="none",
    )
    image: tuple[int, int, int] | None = option(
        "height, width and colours of a sample", type=count, many=3, default=None
    )

    def __post_init__(self) -> None:
        if len(set(self.seeds)) < len(self.seeds):
            raise cli.UsageError("--seeds gives a seed twice; give each once")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(InitialSettings):
    """How networks are trained and evaluated; see schemas/config.schema.yaml for each key."""

    loss: Literal["cross_entropy", "square"] = option(
        "cross_entropy, or half the squared distance from the target", default="cross_entropy"
    )
    outputs: Literal["classes", "scalar"] = option(
        "one for each class, or one whose targets lie evenly from -1 to 1", default="classes"
    )
    batch_size: int | Literal["all"] = option(
        "samples per step, or all", type=count_or_all, default=500
    )
    epochs: int = option("passes over the samples", type=count)
    evaluate_every: int = option("epochs between evaluations", type=count, default=1)
    learning_rates: tuple[float, ...] = option("rates to try", type=positive_number, many=True)
    rate_unit: Literal["one", "critical", "smallest_critical"] = option(
        "what they are multiples of: one, each seed's own critical rate, or the smallest of these",
        default="one",
    )
    critical_seeds: tuple[int, ...] = option(
        "seeds of which smallest_critical is the smallest; without them those of --seeds",
        type=seed,
        many=True,
        default=(),
    )
    dtype: Literal["float32", "float64"] = option("precision", default="float32")
    tf32: bool = option("let a GPU round products to TF32", default=False)
    momentum: float = option("share of the last step in the next", type=share, default=0.0)
    weight_decay: float = option(
        "share of the weights that is added to their gradient", type=not_negative, default=0.0
    )
    decay_at: tuple[int, ...] = option(
        "epochs after which the rate is multiplied", type=count, many=True, default=()
    )
    decay_factor: float = option("by this", type=positive_number, default=0.1)
    augmentation: Augmentation = option("of training images", default="none")
    mixed_precision: bool = option("take products of bfloat16", default=False)
    kernels_along: tuple[int, int] | None = option(
        "samples of the kernels that are measured along training, and epochs at which they are",
        type=count,
        many=2,
        default=None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.learning_rates)) < len(self.learning_rates):
            raise cli.UsageError("a learning rate is given twice; give each once")
        if self.mixed_precision and self.dtype != "float32":
            raise cli.UsageError(f"--mixed-precision needs --dtype float32, not {self.dtype}")

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
        """Return the settings from an experiment's keys as they hold for one network."""
        rates, unit = values["learning_rates"], "one"
        if rates == "auto":
            rates, unit = AUTO_RATES[values["loss"]], "critical"
        elif isinstance(rates, Mapping):
            ((unit, rates),) = rates.items()
        along = values.get("kernels_along")
        along = along and tuple(along[k] for k in ALONG)
        given = {**values, "learning_rates": rates, "rate_unit": unit, "image": image}
        return from_mapping(cls, given | {"kernels_along": along})


def training_parser(description: str | None, networks: type[Family]) -> cli.Parser:
    """Return a parser with a job's networks, their trainings, data, threads and output."""
    parser = cli.Parser(description=description)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared training samples, whole (.npz)")
    add_arguments(parser, networks)
    activation_files_argument(parser)
    own_network_arguments(parser)
    add_arguments(parser, TrainingSettings)
    cli.threads_argument(parser)
    add("--output", type=Path, required=True, help="table to write (.parquet)")
    return parser
