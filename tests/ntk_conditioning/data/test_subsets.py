"""Every use of a seed has its stream; draws and blocks are disjoint, sorted and of their seed."""

from itertools import product
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning import seeds
from ntk_conditioning.data.subsets import draw, draw_on_sphere, draw_two_classes, seed_stream
from ntk_conditioning.errors import UserError
from ntk_conditioning.spectra.block_kernels import draw_blocks


def test_every_seed_role_and_number_from_one_has_a_stream_that_stays_what_it_was():
    cases = list(product((1, 2), get_args(seeds.Role), (None, 1, 2, 1000)))
    assert len({seeds.generator(*case).random() for case in cases}) == len(cases)
    # beside the stream of a Gaussian dataset's values
    (of_draws,) = np.random.SeedSequence([1, 0]).spawn(1)
    assert seed_stream(1).random() == np.random.default_rng(of_draws).random()
    values = seeds.generator(1, "data").standard_normal(100)
    assert not np.isin(seed_stream(1).standard_normal(100), values).any()
    for entropy, case in (([4, 2], (4, "init")), ([4, 2, 7], (4, "init", 7))):
        expected = np.random.default_rng(np.random.SeedSequence(entropy)).random()
        assert seeds.generator(*case).random() == expected
    for number in (0, -1):
        with pytest.raises(ValueError, match=f"number {number} is below 1"):
            seeds.generator(1, "batch", number)


CLASSES = np.repeat([3, 7, 40], [6, 3, 11])


def drawn(n, seed=1, classes=None):
    return draw("tiny", 20, n, generator=seed_stream(seed), classes=classes)


def test_seeds_draw_their_own_rows_again_and_again_in_order():
    rows = drawn(8)
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(drawn(8), rows)
    assert not np.array_equal(drawn(8, seed=2), rows)
    x = np.random.default_rng(0).standard_normal((20, 3))
    units = x[rows] / np.linalg.norm(x[rows], axis=1)[:, None]
    np.testing.assert_array_equal(draw_on_sphere("tiny", x, 8, seed=1), units)


def test_classes_share_a_draw_evenly_or_two_that_are_there_with_signs():
    for n, counts in (3, [1, 1, 1]), (8, [3, 3, 2]), (9, [3, 3, 3]):
        rows = drawn(n, classes=CLASSES)
        assert np.unique_counts(CLASSES[rows]).counts.tolist() == counts
    rows, signs = draw_two_classes("tiny", CLASSES, 6, generator=seed_stream(1))
    assert sorted(CLASSES[rows]) == [3] * 3 + [7] * 3
    np.testing.assert_array_equal(signs, np.where(CLASSES[rows] == 3, -1.0, 1.0))
    for labels, problem in ((None, "no labels"), (CLASSES, r"\[3, 4\] are not")):
        with pytest.raises(UserError, match=f"tiny.*{problem}"):
            draw_two_classes("tiny", labels, 2, generator=seed_stream(1), classes=[3, 4])


@pytest.mark.parametrize(
    ("n", "classes", "problem"),
    [
        (21, None, "tiny: 21 samples asked for; it must be 2 to 20, or all"),
        (1, None, "it must be 2 to 20"),
        (2, CLASSES, "tiny: 2 samples cannot hold each of 3 classes"),
        (12, CLASSES, "tiny: class 7 has 3 samples, but a balanced draw of 12 takes 4; at most 9"),
    ],
)
def test_what_cannot_be_drawn_is_named(n, classes, problem):
    with pytest.raises(UserError, match=problem):
        drawn(n, classes=classes)


def blocks(n, size, count, seed=1):
    return draw_blocks(n, size=size, count=count, generator=seeds.generator(seed, "blocks"))


@given(st.integers(1, 50), st.integers(0, 150))
def test_blocks_are_disjoint_and_inside(size, more):
    n = size + more
    members = np.concatenate(every := blocks(n, size, "all"))
    assert [len(block) for block in every] == [size] * (n // size)
    assert all((np.diff(block) > 0).all() for block in every)
    assert len(set(members.tolist())) == len(members)
    assert 0 <= members.min() <= members.max() < n


def test_fewer_blocks_are_the_first_of_more_and_all_that_fit_is_the_dataset_in_its_order():
    few, many, others = blocks(100, 10, 3), blocks(100, 10, "all"), blocks(100, 10, 3, seed=2)
    np.testing.assert_array_equal(few, many[:3])
    assert not np.array_equal(few, others)
    (block,) = blocks(7, "all", 1)
    assert block.tolist() == list(range(7))
    for size, count in ((8, 1), (8, "all"), (4, 2), ("all", 2)):
        with pytest.raises(UserError):
            blocks(7, size, count)
