"""Empty axes in the style of the figures."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ntk_conditioning import plotting


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with mpl.rc_context():
        plotting.use_style()
        yield


@pytest.fixture
def ax() -> Axes:
    figure = Figure(figsize=(4, 3))
    FigureCanvasAgg(figure)
    return figure.subplots()
