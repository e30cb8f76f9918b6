"""Blocks are disjoint, random by seed, and never more than fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.data.blocks import BlockError, draw_blocks
from ntk_conditioning.seeds import generator


@given(n=st.integers(2, 200), size=st.integers(1, 50), seed=st.integers(0, 5))
def test_blocks_are_disjoint_and_inside(n, size, seed):
    if size > n:
        with pytest.raises(BlockError):
            draw_blocks(n, size=size, count="all", generator=generator(seed, "blocks"))
        return
    blocks = draw_blocks(n, size=size, count="all", generator=generator(seed, "blocks"))
    members = np.concatenate(blocks)
    assert len(blocks) == n // size
    assert all(len(block) == size for block in blocks)
    assert len(set(members.tolist())) == len(members)
    assert members.min() >= 0
    assert members.max() < n


def test_fewer_blocks_are_the_first_of_more():
    few = draw_blocks(100, size=10, count=3, generator=generator(1, "blocks"))
    many = draw_blocks(100, size=10, count="all", generator=generator(1, "blocks"))
    assert all(np.array_equal(a, b) for a, b in zip(few, many, strict=False))


def test_seeds_choose_other_blocks():
    one, two = (
        draw_blocks(100, size=10, count=1, generator=generator(seed, "blocks"))[0]
        for seed in (1, 2)
    )
    assert not np.array_equal(one, two)


def test_all_is_the_dataset_in_its_order():
    (block,) = draw_blocks(7, size="all", count=1, generator=generator(1, "blocks"))
    assert block.tolist() == list(range(7))


@pytest.mark.parametrize(("size", "count"), [(8, 1), (4, 2), ("all", 2)])
def test_what_does_not_fit_is_refused(size, count):
    with pytest.raises(BlockError):
        draw_blocks(7, size=size, count=count, generator=generator(1, "blocks"))
