"""Blocks are disjoint, random by seed, and never more than fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.data.blocks import BlockError, draw_blocks
from ntk_conditioning.seeds import generator


def draw(n, size, count, seed=1):
    return draw_blocks(n, size=size, count=count, generator=generator(seed, "blocks"))


@given(st.integers(1, 50), st.integers(0, 150))
def test_blocks_are_disjoint_and_inside(size, more):
    n = size + more
    blocks = draw(n, size, "all")
    members = np.concatenate(blocks)
    assert [len(block) for block in blocks] == [size] * (n // size)
    assert len(set(members.tolist())) == len(members)
    assert 0 <= members.min() <= members.max() < n


def test_fewer_blocks_are_the_first_of_more_and_all_is_the_dataset_in_its_order():
    few, many, others = draw(100, 10, 3), draw(100, 10, "all"), draw(100, 10, 3, seed=2)
    np.testing.assert_array_equal(few, many[:3])
    assert not np.array_equal(few, others)
    (block,) = draw(7, "all", 1)
    assert block.tolist() == list(range(7))


@pytest.mark.parametrize(("size", "count"), [(8, 1), (8, "all"), (4, 2), ("all", 2)])
def test_what_does_not_fit_is_refused(size, count):
    with pytest.raises(BlockError):
        draw(7, size, count)
