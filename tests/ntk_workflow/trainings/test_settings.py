"""Settings of trainings: the same from a config, a dataclass and a command line."""

from dataclasses import MISSING, asdict, fields
from pathlib import Path

import yaml

from ntk_workflow.trainings.settings import TrainingSettings
from ntk_workflow.yaml_files import to_words

SCHEMA = Path(__file__).parents[3] / "schemas/config.schema.yaml"


def test_a_config_has_the_same_settings_and_defaults_and_words_are_read_back():
    keys = yaml.safe_load(SCHEMA.read_text())["$defs"]["experiment"]["properties"]
    defaults = {key: each["default"] for key, each in keys.items() if "default" in each}
    given = {"epochs": 3, "loss": "square"}
    config = defaults | given | {"learning_rates": {"critical": [1e-7]}, "datasets": ["digits"]}
    expected = TrainingSettings(**given, learning_rates=(1e-7,), rate_unit="critical")
    assert TrainingSettings.from_config(config, image=None) == expected
    config |= {"kernels_along": {"samples": 12, "points": 3}, "decay_at": [1, 2], "tf32": True}
    settings = TrainingSettings.from_config(config, image=(4, 3, 2))
    assert (settings.kernels_along, settings.decay_at, settings.tf32) == ((12, 3), (1, 2), True)
    assert TrainingSettings.from_words(to_words(asdict(settings))) == settings
    extra = {each.name for each in fields(TrainingSettings)} - keys.keys()
    assert extra == {"rate_unit", "critical_seeds", "image"}
    required = {each.name for each in fields(TrainingSettings) if each.default is MISSING}
    assert required == {"epochs", "learning_rates"}
