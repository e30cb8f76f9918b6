"""How the condition number spreads over random networks of finite width, and laws of that.

Where the depth L is no longer small beside the width m, kernels are random: their entries spread
like √(L/m) (Hanin & Nica 2020, "Finite depth and width corrections to the neural tangent kernel"),
and so does log kappa. Its mean rises too. Laws here are fitted to what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from ntk_conditioning.networks.calculus import Array

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.95  # of an exponent's interval
RESOLVED = 1e-12  # a smallest eigenvalue is larger than this beside the largest
LARGEST_RATIO = 0.25  # of L/m in a fit: beyond, kernels of some samples are hardly resolved
CLEAR = 3.0  # standard errors above 0 that a shift in a fit has at least


def spread(kernels: Array) -> dict[str, Any]:
    """Return mean, variance and quantiles of ln kappa over kernels (N, n, n), with standard errors.

    As columns of the table `finite_width`; ``low`` and ``high`` are 5 and 95 %. Kernels that are
    not finite or whose smallest eigenvalue rounding hides are left out; ``resolved`` counts the
    others. All numbers are None if there are fewer than two of them.

    >>> logs = spread(np.array([np.diag([1.0, math.e]), np.diag([1.0, math.e**3])]))
    >>> round(logs["mean"], 12), round(logs["variance"], 12), logs["resolved"]
    (2.0, 2.0, 2)
    >>> round(logs["variance_error"] ** 2, 12)  # (μ_4 - σ⁴ (n - 3) / (n - 1)) / n
    2.5
    >>> spread(np.array([np.eye(2), np.diag([1.0, math.inf])]))["resolved"]
    1
    """
    values = np.linalg.eigvalsh(kernels[np.isfinite(kernels).all(axis=(1, 2))])
    values = values[values[:, 0] > RESOLVED * values[:, -1]]
    logs = np.log(values[:, -1] / values[:, 0])
    names = ("mean", "mean_error", "variance", "variance_error", "low", "median", "high")
    counts = {"networks": len(kernels), "resolved": len(logs)}
    if len(logs) < 2:
        return counts | dict.fromkeys(names)
    mean, variance = float(logs.mean()), float(logs.var(ddof=1))
    fourth = float(np.mean((logs - mean) ** 4))
    n = len(logs)
    mean_error = math.sqrt(variance / n)
    variance_error = math.sqrt((fourth - variance**2 * (n - 3) / (n - 1)) / n)
    numbers = mean, mean_error, variance, variance_error, *np.quantile(logs, [0.05, 0.5, 0.95])
    return counts | dict(zip(names, map(float, numbers), strict=True))


def power_law(x: Sequence[float], y: Sequence[float]) -> dict[str, float] | None:
    """Return y = factor x^exponent by least squares on logarithms, None of fewer than three x.

    As columns of the table `finite_width_laws`. The exponent's interval is of 95 %, by Student's t;
    ``scatter`` is the root mean square of the logarithms' distances from the law.

    >>> law = power_law([1.0, 2.0, 4.0], [3.0, 6.0, 12.0])
    >>> round(law["factor"], 9), round(law["exponent"], 9), law["points"]
    (3.0, 1.0, 3)
    """
    if len(set(x)) < 3:
        return None
    across, up = np.log(x), np.log(y)
    (slope, intercept), covariance = np.polyfit(across, up, 1, cov=True)
    off = up - intercept - slope * across
    half = stdtrit(len(off) - 2, (1 + LEVEL) / 2) * math.sqrt(covariance[0, 0])
    return {
        "factor": math.exp(intercept),
        "exponent": float(slope),
        "points": len(off),
        "exponent_low": float(slope - half),
        "exponent_high": float(slope + half),
        "scatter": float(np.sqrt(np.mean(np.square(off)))),
    }


def fitted_laws(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table `finite_width_laws` from those of `finite_width`.

    Only cells count in which all networks are resolved. Too few of them have no law.
    """
    whole = frame[(frame["resolved"] == frame["networks"]) & frame["infinite"].notna()]
    whole = whole.assign(
        ratio=whole["depth"] / whole["width"], shift=whole["mean"] - whole["infinite"]
    )
    whole = whole[whole["ratio"] <= LARGEST_RATIO]
    for (dataset, activation, n), group in whole.groupby(["dataset", "activation", "n"]):
        keys = {"dataset": dataset, "activation": activation, "n": n}
        clear = group[group["shift"] > CLEAR * group["mean_error"]]
        for quantity, cells in (("variance", group[group["variance"] > 0]), ("shift", clear)):
            ratio = cells["ratio"]
            if law := power_law(ratio.to_list(), cells[quantity].to_list()):
                ends = {"ratio_min": float(ratio.min()), "ratio_max": float(ratio.max())}
                yield {**keys, "quantity": quantity, **law, **ends}
