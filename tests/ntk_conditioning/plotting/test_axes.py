"""Depths and degrees are written in plain numbers."""

from __future__ import annotations

from matplotlib.axes import Axes

from ntk_conditioning import plotting


def test_depths_are_whole_numbers(ax: Axes) -> None:
    ax.plot([0, 7], [1, 2])
    plotting.depth_axis(ax, [0, 3, 7])
    low, high = ax.get_xlim()
    ticks = [tick for tick in ax.get_xticks() if low <= tick <= high]
    assert ticks == list(range(8))
    assert ax.get_xlabel() == plotting.DEPTH


def test_degrees_are_plain_numbers(ax: Axes) -> None:
    ax.plot([0, 1], [0.4, 30])
    plotting.degree_axis(ax)
    ax.figure.draw_without_rendering()
    low, high = ax.get_ylim()
    shown = [
        label.get_text()
        for tick, label in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
        if low <= tick <= high
    ]
    assert shown == ["0.5", "1", "2", "5", "10", "20"]
