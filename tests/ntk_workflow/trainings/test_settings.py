"""Settings of trainings: the same from a config, a dataclass and a command line."""

from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ntk_workflow.settings import from_mapping, to_options
from ntk_workflow.trainings.settings import TrainingSettings, training_parser

SCHEMA = Path(__file__).parents[3] / "schemas/config.schema.yaml"
PROPERTIES = yaml.safe_load(SCHEMA.read_text())["$defs"]["experiment"]["properties"]
JOB = ["--data=a.npz", "--experiment=e", "--dataset=d", "--activation=relu"]

#: Everything but the defaults.
VALUES: dict[str, Any] = {"width": 7, "seeds": (3, 4), "samples": 20, "input_scale": "fan_in"}
VALUES |= {"loss": "square", "outputs": "scalar", "learning_rates": (1e-7, 0.1), "tf32": True}
VALUES |= {"batch_size": "all", "epochs": 5, "evaluate_every": 2, "test_share": 0.25}
VALUES |= {"momentum": 0.9, "weight_decay": 1e-4, "decay_at": (1, 3), "decay_factor": 0.5}
VALUES |= {"augmentation": "crop_flip", "mixed_precision": True, "image": (4, 3, 2)}
OTHER = TrainingSettings(**VALUES)


def test_options_are_read_back():
    for settings in (
        OTHER,
        replace(OTHER, rate_unit="critical", dtype="float64", mixed_precision=False),
        TrainingSettings(epochs=1, learning_rates=(0.1,)),
    ):
        args = training_parser("").parse_args([*JOB, *to_options(settings)])
        assert from_mapping(type(settings), vars(args)) == settings


def test_a_config_has_the_same_defaults():
    for each in fields(TrainingSettings):
        if each.name in PROPERTIES and each.name != "learning_rates":
            default = PROPERTIES[each.name].get("default", MISSING)
            assert (tuple(default) if isinstance(default, list) else default) == each.default
    extra = {each.name for each in fields(TrainingSettings)} - PROPERTIES.keys()
    assert extra == {"rate_unit", "critical_seeds", "image"}


RATES = [([0.1, 0.3], (0.1, 0.3), "one"), ({"critical": [0.5]}, (0.5,), "critical")]
RATES += [({"smallest_critical": [0.5]}, (0.5,), "smallest_critical")]
RATES += [("auto", (0.125, 0.25, 0.5, 1.0), "critical")]


@pytest.mark.parametrize(("rates", "expected", "unit"), RATES)
def test_rates_of_a_config_are_of_any_kind(rates, expected, unit):
    given = {"epochs": 3, "loss": "square"}
    config = given | {"learning_rates": rates, "datasets": ["digits"]}
    settings = TrainingSettings(**given, learning_rates=expected, rate_unit=unit)
    assert TrainingSettings.from_config(config) == settings
