"""Settings of trainings: the same from a config, a dataclass and a command line."""

from dataclasses import MISSING, asdict, fields
from pathlib import Path

import pytest
import yaml

from ntk_workflow.named_values import to_words
from ntk_workflow.trainings.settings import TrainingSettings

SCHEMA = Path(__file__).parents[3] / "schemas/config.schema.yaml"
PROPERTIES = yaml.safe_load(SCHEMA.read_text())["$defs"]["experiment"]["properties"]
DEFAULTS = {key: each["default"] for key, each in PROPERTIES.items() if "default" in each}
GIVEN = {"epochs": 3, "loss": "square"}

RATES = [([0.1, 3], (0.1, 3.0), "one"), ({"critical": [1e-7]}, (1e-7,), "critical")]
RATES += [({"smallest_critical": [0.5]}, (0.5,), "smallest_critical")]
RATES += [("auto", (0.125, 0.25, 0.5, 1.0), "critical")]


@pytest.mark.parametrize(("rates", "expected", "unit"), RATES)
def test_a_config_has_the_same_settings_and_defaults_and_words_are_read_back(rates, expected, unit):
    config = DEFAULTS | GIVEN | {"learning_rates": rates, "datasets": ["digits"]}
    settings = TrainingSettings.from_config(config, image=None)
    assert settings == TrainingSettings(**GIVEN, learning_rates=expected, rate_unit=unit)
    config |= {"kernels_along": {"samples": 12, "points": 3}, "decay_at": [1, 2], "tf32": True}
    settings = TrainingSettings.from_config(config, image=(4, 3, 2))
    assert (settings.kernels_along, settings.decay_at, settings.tf32) == ((12, 3), (1, 2), True)
    assert TrainingSettings.from_words(to_words(asdict(settings))) == settings


def test_every_setting_is_a_key_of_an_experiment():
    extra = {each.name for each in fields(TrainingSettings)} - PROPERTIES.keys()
    assert extra == {"rate_unit", "critical_seeds", "image"}
    required = {each.name for each in fields(TrainingSettings) if each.default is MISSING}
    assert required == {"epochs", "learning_rates"}
