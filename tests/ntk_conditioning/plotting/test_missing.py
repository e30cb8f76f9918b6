"""Values beyond an axis are arrows beside the curves, without numbers."""

from __future__ import annotations

import pytest
from matplotlib.axes import Axes

from ntk_conditioning import plotting


@pytest.mark.parametrize("edge", ["top", "bottom"])
def test_arrows_stand_beside_all_curves(ax: Axes, edge: str) -> None:
    ax.plot([0, 1, 2], [1e2, 1e5, 1e7])
    ax.set_yscale("log")
    rows = [([0, 1], "#000000", "-"), ([], "#111111", "-"), ([2], "#222222", "--")]
    first, empty, second = plotting.mark_off_scale(ax, rows, label="beyond", edge=edge)
    low, high = ax.get_ylim()
    if edge == "top":
        assert 1e7 < first < second < high
        assert empty == pytest.approx(high)
    else:
        assert low < first < second < 1e2
        assert empty == pytest.approx(low)
    # No number is written beside the arrows, which have no values.
    ticks = [tick for minor in (False, True) for tick in ax.get_yticks(minor=minor)]
    assert not any(min(first, second) <= tick <= max(first, second) for tick in ticks)
    assert "beyond" in [text.get_text() for text in ax.texts]
    markers = {line.get_marker() for line in ax.lines}
    assert (r"$\uparrow$" in markers) == (edge == "top")


def test_nothing_beyond_the_axis_changes_nothing(ax: Axes) -> None:
    ax.plot([0, 1], [1, 10])
    ax.set_yscale("log")
    before = ax.get_ylim()
    assert plotting.mark_off_scale(ax, [([], "#000000", "-")]) == [before[1]]
    assert ax.get_ylim() == before
    assert len(ax.lines) == 1
    assert not ax.patches


def test_arrows_alone_have_no_scale(ax: Axes) -> None:
    plotting.draw_curve(ax, [0, 1], [None, None], color="#000000")
    ax.set_yscale("log")
    plotting.mark_off_scale(ax, [([0, 1], "#000000", "-")])
    assert not [*ax.get_yticks(), *ax.get_yticks(minor=True)]
