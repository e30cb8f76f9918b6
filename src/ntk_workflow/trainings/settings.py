"""What a training is told: the settings of an experiment as they hold for one network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ntk_conditioning.training.learning_rates import LearningRates
from ntk_workflow.cli import not_negative, positive_integer, positive_number, seed, share
from ntk_workflow.cli import positive_integer_or_all as integer_or_all
from ntk_workflow.settings import from_mapping, option


@dataclass(frozen=True)
class KernelSettings:
    """Networks at their initialisation, and the samples that they are trained on."""

    width: int = option(
        "hidden units per layer, or channels of a resnet's first stage", type=positive_integer
    )
    seeds: tuple[int, ...] = option("seeds, a network for each", type=seed, many=True)
    samples: int | Literal["all"] = option(
        "training samples that every seed draws for itself, or all",
        type=integer_or_all,
        default="all",
    )
    input_scale: str = option(
        "fan_in multiplies samples by sqrt(2/d), as the first layer of the published code",
        choices=["none", "fan_in"],
        default="none",
    )


@dataclass(frozen=True)
class TrainingSettings(KernelSettings):
    """How networks are trained and evaluated; see schemas/config.schema.yaml for each key."""

    loss: str = option("loss", choices=["cross_entropy", "square"], default="cross_entropy")
    outputs: str = option(
        "an output for each class, or one whose targets are spaced evenly from -1 to 1",
        choices=["classes", "scalar"],
        default="classes",
    )
    batch_size: int | Literal["all"] = option(
        "samples per step, or all", type=integer_or_all, default=500
    )
    epochs: int = option("passes over the samples", type=positive_integer, default=1)
    evaluate_every: int = option("epochs between evaluations", type=positive_integer, default=1)
    learning_rates: tuple[float, ...] = option(
        "rates to try", type=positive_number, many=True, default=()
    )
    relative_rates: tuple[float, ...] = option(
        "rates to try, in units of the smallest critical rate in --kernel",
        type=positive_number,
        many=True,
        default=(),
    )
    dtype: str = option("precision", choices=["float32", "float64"], default="float32")
    tf32: bool = option("let a GPU round products to TF32", default=False)
    test_share: float = option(
        "share of the samples that every seed holds out, without --test", type=share, default=0.0
    )
    momentum: float = option("share of the last step in the next", type=share, default=0.0)
    weight_decay: float = option("weights' share of their gradient", type=not_negative, default=0.0)
    decay_at: tuple[int, ...] = option(
        "epochs after which the rate is multiplied", type=positive_integer, many=True, default=()
    )
    decay_factor: float = option("by this", type=positive_number, default=0.1)
    augmentation: str = option("of training images", choices=["none", "crop_flip"], default="none")
    mixed_precision: bool = option("take products of bfloat16", default=False)
    image: tuple[int, ...] = option(
        "height, width and colours of a sample", type=positive_integer, many=3, default=()
    )

    @classmethod
    def from_config(
        cls, values: Mapping[str, Any], *, image: tuple[int, int, int] | None = None
    ) -> TrainingSettings:
        """Return the settings from an experiment's keys as they hold for one network."""
        rates = LearningRates.parse(values["learning_rates"], loss=values["loss"])
        key, other = ("relative_rates", "learning_rates")[:: 1 if rates.relative else -1]
        given = {**values, key: rates.values, other: ()}
        return from_mapping(cls, given | ({"image": image} if image else {}))
