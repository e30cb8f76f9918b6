"""Which files are drawn to be made again, and how far their numbers may be from a bundle's."""

import random
from collections import Counter
from itertools import combinations

import pyarrow as pa
import pytest

from ntk_conditioning.tables import Table
from ntk_workflow.bundle.recomputation import Sample, _problems, _rows, sample

COSTS = {"cheap": 0.0, "cheaper": 1.0, "dear": 60.0, "dearer": 600.0, "dearest": 6000.0}
CURVES = Table(
    "curves",
    "",
    ("seed", "epoch"),
    (
        pa.field("seed", pa.int64()),
        pa.field("epoch", pa.int64()),
        pa.field("loss", pa.float64()),
        pa.field("kappa", pa.float64()),
        pa.field("kappa_error", pa.float64()),
    ),
)


def test_each_file_is_drawn_as_often_as_is_said():
    rng, dear = random.Random(1), [cost for cost in COSTS.values() if cost]  # cheap is certain
    drawn = [sample(COSTS, 2, rng) for _ in range(4000)]
    assert {len(each.files) for each in drawn} == {2}
    counts = Counter(file for each in drawn for file in each.files)
    assert counts["cheap"] == 4000
    assert counts["cheaper"] > counts["dear"] > counts["dearer"]
    assert drawn[0].least == pytest.approx(1 / 6003 / sum(1 / (3 + c) for c in dear))
    assert counts["dearer"] / 4000 == pytest.approx(drawn[0].least * 6003 / 603, abs=0.005)
    assert ({*sample(COSTS, 9, rng).files}, sample(COSTS, 9, rng).least) == ({*COSTS}, 1.0)


def test_the_chance_counts_the_samples_that_have_a_forged_file():
    found = Sample(("a", "b"), jobs=5, least=0.1)
    hits = [{"a", "b"} & {*forged} for forged in combinations("abcde", 3)]
    assert found.chance(3) == pytest.approx(sum(map(bool, hits)) / len(hits))
    assert found.chance(1) == pytest.approx(2 / 5)


def curves(**changes: list[float | None]):
    """Return the rows of two seeds and three epochs."""
    values = {"loss": [1.0, 0.5, 0.25, 1.0, 0.5, 0.25], "kappa": [100.0] * 6} | changes
    values = {"kappa_error": [0.005] * 6} | values
    keys = [(seed, epoch) for seed in (1, 2) for epoch in (0, 1, 2)]
    found = [
        {"seed": s, "epoch": e, **{name: numbers[i] for name, numbers in values.items()}}
        for i, (s, e) in enumerate(keys)
    ]
    return _rows(found, CURVES)


@pytest.mark.parametrize(
    ("bundle", "says"),
    [
        ({}, None),
        ({"loss": [1.0, 0.5, 0.250001, 1.0, 0.5, 0.25]}, None),  # by rounding
        ({"loss": [1.0, 0.5, 0.25, 1.0, 0.5, 0.2501]}, "loss is 0.2501, and 0.25 when"),
        ({"loss": [1.0, 0.5, None, 1.0, 0.5, 0.25]}, "loss is None, and 0.25 when"),
        ({"kappa": [100.9] + [100.0] * 5}, None),  # within both bounds on its error
        ({"kappa": [101.1] + [100.0] * 5}, "kappa is 101.1, and 100.0 when"),
        ({"kappa_error": [0.006] + [0.005] * 5}, None),
        ({"kappa_error": [0.6] + [0.005] * 5}, "kappa_error is 0.6, and 0.005 when"),
    ],
)
def test_a_number_may_differ_by_rounding_and_by_its_error(bundle, says):
    found = [*_problems(CURVES, curves(**bundle), curves(), exact=False)]
    assert [line for line in found if says is None or says not in line] == []
    assert len(found) == (says is not None)
    strict = [*_problems(CURVES, curves(**bundle), curves(), exact=True)]
    assert len(strict) == bool(bundle)
