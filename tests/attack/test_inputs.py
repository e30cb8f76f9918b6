"""Some of every family of hostile inputs; all of them by `python -m tests.attack.inputs`."""

import pytest

from tests.attack import inputs

CHOSEN = {
    "overlay: YAML": ("bomb", "deep flow", "twice", "binary tag"),
    "catalogue: entries": ("unknown key", "ftp", "braces", "device", "entry that is a list"),
    "paper": ("an attribute", "deep brackets", "outside"),
    "data": ("semicolons", "infinity", "gzip bomb", "header alone"),
    "activation: file": ("exit 0", "memory"),
    "activation: function": ("random", "declared kink"),
    "network": ("exit", "None"),
}
CASES = [each for each in inputs.cases() if each.name in CHOSEN.get(each.family, ())]
CASES += [each for each in inputs.cases() if each.family == "overlay: values"][:3]
CASES += [each for each in inputs.cases() if each.family == "catalogue: YAML"][:2]


def test_every_family_is_there():
    assert {each.family for each in inputs.cases()} == {each.family for each in CASES}


@pytest.mark.usefixtures("activation_registry")
@pytest.mark.parametrize("hostile", CASES, ids=lambda each: f"{each.family}, {each.name}")
def test_a_hostile_input_is_one_line(hostile, tmp_path):
    inputs.prepare(hostile, tmp_path)
    outcome = inputs.Outcome(inputs.plan(tmp_path), False, 0, 0)
    assert outcome.verdict == "refused", outcome.lines
    assert not (tmp_path / "owned").exists()
