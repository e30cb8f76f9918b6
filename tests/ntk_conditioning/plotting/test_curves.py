"""Curves leave gaps where values are missing; legends keep groups apart."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ntk_conditioning import plotting


def test_missing_points_are_gaps_and_lone_points_are_dots(ax: Axes) -> None:
    y = [1.0, None, 3.0, np.nan, 5.0, 6.0]
    line = plotting.draw_curve(ax, range(6), y, color="#000000", low=y, high=y)
    np.testing.assert_array_equal(
        np.isnan(line.get_ydata()), [False, True, False, True] + [False] * 2
    )
    (dots,) = [other for other in ax.lines if other is not line]
    assert dots.get_xdata().tolist() == [0, 2]
    assert len(ax.collections) == 1


def test_legend_groups_begin_rows() -> None:
    figure = Figure()
    figure.subplots()
    groups = [[plotting.line_handle(name) for name in names] for names in ("abcde", "xy")]
    plotting.legend_below(figure, *groups, [plotting.band_handle("z")], columns=3)
    (legend,) = figure.legends
    by_column = [text.get_text() for text in legend.get_texts()]
    rows = len(by_column) // 3
    table = [[by_column[column * rows + row] for column in range(3)] for row in range(rows)]
    assert table == [["a", "b", "c"], ["d", "e", ""], ["x", "y", ""], ["z", "", ""]]
