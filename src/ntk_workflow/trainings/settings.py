"""The settings of a training: those of an experiment as they hold for one network."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from ntk_conditioning.errors import UserError
from ntk_conditioning.training.descent import AUTO_RATES, Descent, rounded_down
from ntk_workflow.yaml_files import named_values

#: The learning rate of each network, by its seed and the rate as the settings give it.
Rates = Mapping[tuple[int, float], float]
Image = tuple[int, int, int]  # height, width and colours


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Descent):
    """How networks are trained and evaluated; see schemas/config.schema.yaml for each key.

    ``rate_unit`` says what ``learning_rates`` are multiples of: one, each seed's own critical rate,
    or the smallest of these, over ``critical_seeds`` if there are any. ``kernels_along`` are the
    samples and the points of kernels along training.
    """

    width: int = 512
    seeds: tuple[int, ...] = (1, 32, 111, 555, 666)
    samples: int | Literal["all"] = "all"
    test_share: float = 0.0
    input_scale: Literal["none", "fan_in"] = "none"
    image: Image | None = None
    loss: Literal["cross_entropy", "square"] = "cross_entropy"
    outputs: Literal["classes", "scalar"] = "classes"
    batch_size: int | Literal["all"] = 500
    learning_rates: tuple[float, ...]
    rate_unit: Literal["one", "critical", "smallest_critical"] = "one"
    critical_seeds: tuple[int, ...] = ()
    dtype: Literal["float32", "float64"] = "float32"
    tf32: bool = False
    kernels_along: tuple[int, int] | None = None

    @classmethod
    def from_config(cls, values: Mapping[str, Any], *, image: Image | None) -> Self:
        """Return the settings from an experiment's keys as they hold for one network."""
        rates, unit = values["learning_rates"], "one"
        if rates == "auto":
            rates, unit = AUTO_RATES[values["loss"]], "critical"
        elif isinstance(rates, Mapping):
            ((unit, rates),) = rates.items()
        along = values["kernels_along"]
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        known |= {"learning_rates": [*map(float, rates)], "rate_unit": unit, "image": image}
        return cls._of(known | {"kernels_along": along and [along["samples"], along["points"]]})

    @classmethod
    def from_words(cls, words: Iterable[str]) -> Self:
        """Return the settings from a program's KEY=VALUE."""
        try:
            return cls._of(named_values(words, option="--settings"))
        except TypeError as error:  # unknown or missing keys
            raise UserError(f"--settings: {str(error).partition(' ')[2]}") from None

    @classmethod
    def _of(cls, values: Mapping[str, Any]) -> Self:
        known: Any = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**known)

    def absolute_rates(self, critical: Mapping[int, float]) -> Rates:
        """Return the learning rate of every network, from the ``critical`` rate of each seed."""
        rates = {}
        for seed in self.seeds:
            for rate in sorted(self.learning_rates):
                rates[seed, rate] = rate
                if self.rate_unit == "critical":
                    rates[seed, rate] = rounded_down(rate * critical[seed])
                elif self.rate_unit == "smallest_critical":
                    rates[seed, rate] = rounded_down(rate * min(critical.values()))
        return rates
