"""What a run leaves about itself: its config can be run again and asks for the same."""

from __future__ import annotations

from collections import Counter

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("finished")]

CI = ("--configfile", "config/ci.yaml")


def test_the_recorded_config_asks_for_the_same_run(rerun):
    assert rerun.plan("--configfile", "results/ci/record/config.yaml") == Counter()


def test_another_config_or_place_of_files(rerun):
    assert rerun.plan("results/ci/record/config.yaml", *CI, "--config", "width=33") == Counter(
        {"record_run": 1}
    )
    assert rerun.plan(*CI, "--config", f"mirror={rerun.folder}", "data_dir=elsewhere") == Counter()
