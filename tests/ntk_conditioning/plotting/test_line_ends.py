"""Names at the ends of lines keep their order and do not overlap."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.text import Text

from ntk_conditioning import plotting


@given(st.lists(st.floats(0, 1), min_size=1, max_size=15).map(sorted), st.floats(0.01, 0.3))
def test_spread_keeps_order_distance_and_centre(levels: list[float], gap: float) -> None:
    placed = plotting.spread(levels, gap=gap)
    assert all(b - a >= gap - 1e-9 for a, b in pairwise(placed))
    assert np.mean(placed) == pytest.approx(np.mean(levels))
    if all(b - a >= gap for a, b in pairwise(levels)):
        assert placed == levels


def test_names_at_line_ends_do_not_overlap(ax: Axes) -> None:
    ax.set(xlim=(0, 1), yscale="log", ylim=(1, 1e6))
    heights = [2.0, 1e3, 1.01e3, 1.02e3, 1e5]
    plotting.label_line_ends(ax, [(1.0, y, f"line {y:g}", "#000000") for y in heights[::-1]])
    ax.figure.draw_without_rendering()
    # Of the words only: an annotation's own extent includes the line to its point.
    boxes = {name.get_text(): Text.get_window_extent(name) for name in ax.texts}
    upwards = sorted(boxes, key=lambda name: boxes[name].y0)
    assert upwards == [f"line {y:g}" for y in heights]
    assert not any(a.overlaps(b) for a, b in combinations(boxes.values(), 2))
    assert min(box.x0 for box in boxes.values()) > ax.get_window_extent().x1
    plotting.label_line_ends(ax, [])
