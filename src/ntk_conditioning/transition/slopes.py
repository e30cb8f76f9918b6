"""Exponents with which measured quantities fall with the width of a network."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

#: Columns that depend on the radius of a ball, and all that are fitted, by study.
BY_RADIUS = ("quadratic_term", "quadratic_term_fixed")
QUANTITIES = {
    "orthogonality": ("cos_mean", "cos_rms", "cos_norm", "jacobian_norm"),
    "linearity": ("hessian_norm", "hessian_norm_fixed", "kernel_change", "distance", *BY_RADIUS),
}
KEYS = ["dataset", "architecture", "activation", "layer", "label_scale", "steps", "radius", "seed"]


def width_slopes(study: str, frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table `width_slopes` from the rows of a study's table.

    The exponent is that of least squares on logarithms, over all widths of one network and seed.
    Values that are zero, as the cosines of the first layer, have none, nor has a single width.
    """
    absent = {"layer": 0, "label_scale": 0.0, "radius": 0.0}
    frame = frame.assign(**{name: frame.get(name, value) for name, value in absent.items()})
    of_any_radius = frame[frame["radius"] == frame["radius"].min()].assign(radius=0.0)
    for quantity in QUANTITIES[study]:
        rows = frame if quantity in BY_RADIUS else of_any_radius
        for key, group in rows.sort_values("width").groupby(KEYS):
            width, value = group["width"].to_numpy(), group[quantity].to_numpy()
            if len(width) > 1 and (value > 0).all():
                yield {
                    "study": study,
                    "quantity": quantity,
                    **dict(zip(KEYS, key, strict=True)),
                    "slope": float(np.polyfit(np.log(width), np.log(value), 1)[0]),
                    "points": len(width),
                    "width_min": int(width[0]),
                    "width_max": int(width[-1]),
                    "falls": bool((np.diff(value) < 0).all()),
                }
