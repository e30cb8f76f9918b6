"""Are two pictures of a figure the same? To the eye they are, unless something in it has moved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

LEVELS = 8
"""Differences of a colour channel, of 255, that are passed over.

Matplotlib brings its own rasteriser, font renderer and fonts, so on one version the same data give
the same pixels. Another processor rounds coordinates differently in their last bits, which shifts
how an edge is smoothed by a level or two.
"""

SHARE = 1e-5
"""Share of pixels that may differ by more: a handful, less than any marker or letter has.

One kappa of `liu2023relu/fig2_conditioning_vs_depth` that is off by 1 % shows in 77 times as many.
"""


@dataclass(frozen=True)
class Difference:
    """How pictures differ: a ``share`` of pixels by more than `LEVELS`, none by over ``levels``."""

    same_size: bool
    share: float
    levels: int

    @property
    def tolerable(self) -> bool:
        return self.same_size and self.share <= SHARE


def difference(first: Path, second: Path) -> Difference:
    """Return how two pictures differ.

    Raises:
        OSError: if one of them is no picture.
    """
    pictures = (Image.open(path).convert("RGBA") for path in (first, second))
    a, b = (np.asarray(picture, dtype=np.int16) for picture in pictures)
    if a.shape != b.shape:
        return Difference(same_size=False, share=1.0, levels=255)
    by_pixel = np.abs(a - b).max(axis=2)
    return Difference(
        same_size=True, share=float((by_pixel > LEVELS).mean()), levels=int(by_pixel.max())
    )
