"""Exponents with which measured quantities fall with the width of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

#: By study, the columns that are fitted and whether they depend on the radius of a ball.
QUANTITIES: Mapping[str, Mapping[str, bool]] = {
    "orthogonality": {
        "cos_mean": False,
        "cos_rms": False,
        "cos_norm": False,
        "jacobian_norm": False,
    },
    "linearity": {
        "hessian_norm": False,
        "hessian_norm_fixed": False,
        "kernel_change": False,
        "quadratic_term": True,
        "quadratic_term_fixed": True,
    },
}
_NETWORK = ["dataset", "architecture", "activation", "layer", "trained", "radius", "seed"]


def width_slopes(study: str, frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table `width_slopes` from the rows of a study's table.

    The exponent is that of least squares on logarithms, over all widths of one network and seed.
    Values that are zero, as the cosines of the first layer, have none, nor has a single width.
    """
    frame = frame.assign(
        **{
            name: frame.get(name, default)
            for name, default in (("layer", 0), ("trained", False), ("radius", 0.0))
        }
    )
    for quantity, by_radius in QUANTITIES[study].items():
        kept = frame if by_radius else frame[frame["radius"] == frame["radius"].min()]
        rows = kept if by_radius else kept.assign(radius=0.0)
        for key, group in rows.groupby(_NETWORK):
            points = group.sort_values("width")
            width, value = points["width"].to_numpy(), points[quantity].to_numpy()
            if len(width) < 2 or not (value > 0).all():
                continue
            slope, _ = np.polyfit(np.log(width), np.log(value), 1)
            yield {
                "study": study,
                "quantity": quantity,
                **dict(zip(_NETWORK, key, strict=True)),
                "slope": float(slope),
                "points": len(width),
                "width_min": int(width[0]),
                "width_max": int(width[-1]),
                "falls": bool((np.diff(value) < 0).all()),
            }
