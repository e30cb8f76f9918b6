"""Losses of gradient descent as the kernel at initialisation predicts them, and when it parts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

#: Shares of the initial loss, the time to which is compared, by their names in columns.
SHARES = {"half": 0.5, "tenth": 0.1, "hundredth": 0.01}
#: A prediction has parted from a loss when it is off by this share of it.
PARTED = 0.1
#: Steps that are as good as none.
MOST = 1e15

#: Losses of a curve, missing once it has diverged.
Losses = Sequence[float | None]


def predicted_losses(
    eigenvalues: NDArray[np.float64],
    squares: NDArray[np.float64],
    *,
    rate: float,
    n: int,
    steps: ArrayLike,
) -> NDArray[np.float64]:
    """Return the losses L_t at the times t in ``steps`` of a network that is linear in its weights,

        L_t = 1/(2n) Σ_i (1 - η λ_i / n)^(2t) (u_i · (y - f_0))²,

    for the mean square loss over ``n`` samples and all of them in a step of learning ``rate`` η
    (Lee et al. 2019, arXiv:1902.06720). With c outputs, ``eigenvalues`` (n c,) are the λ_i of the
    kernel of all outputs, not divided by n, and ``squares`` (n c,) are (u_i · (y - f_0))². The
    result is in float64 and has the shape of ``steps``, which need not be whole.

    >>> one, two = np.array([2.0]), np.array([8.0])
    >>> predicted_losses(one, two, rate=0.25, n=1, steps=[0, 1, 2]).tolist()
    [4.0, 1.0, 0.25]
    """
    factors = np.square(1 - rate * eigenvalues / n)
    powers = factors ** np.asarray(steps, dtype=float)[..., None]
    losses: NDArray[np.float64] = powers @ squares / (2 * n)
    return losses


def predicted_steps(
    eigenvalues: NDArray[np.float64],
    squares: NDArray[np.float64],
    *,
    rate: float,
    n: int,
    share: float,
) -> float:
    """Return the time t in steps, not rounded, at which L_t = ``share`` · L_0.

    For arguments see `predicted_losses`. The time is infinite if it exceeds `MOST` or does not
    exist: above the critical rate, η λ_max > 2 n, where losses grow, or if more than this share of
    the squared residual lies in directions of eigenvalue zero.

    >>> predicted_steps(np.array([2.0]), np.array([8.0]), rate=0.25, n=1, share=0.25)
    1.0
    """
    eigenvalues, squares = eigenvalues[squares > 0], squares[squares > 0]
    if (rate * eigenvalues > 2 * n).any():
        return math.inf

    def left(t: float) -> float:
        now = predicted_losses(eigenvalues, squares, rate=rate, n=n, steps=t)
        return float(2 * n * now / squares.sum()) - share

    return math.inf if left(MOST) >= 0 else float(brentq(left, 0, MOST, xtol=1e-12, maxiter=1000))


def epochs_to(level: float, epochs: ArrayLike, losses: ArrayLike | Losses) -> float:
    """Return after how many epochs a loss is first at or below ``level``; infinity if never.

    Between two evaluated epochs log(loss) is interpolated linearly.

    >>> epochs_to(0.1, [0, 1, 2], [10.0, 1.0, 0.01])
    1.5
    """
    when, curve = np.asarray(epochs, dtype=float), np.asarray(losses, dtype=float)
    reached = np.flatnonzero(curve <= level)
    if not len(reached):
        return math.inf
    k = int(reached[0])
    if k == 0 or curve[k] <= 0:
        return float(when[k])
    return float(np.interp(math.log(level), np.log([curve[k], curve[k - 1]]), when[[k, k - 1]]))


def times(epochs: Sequence[int], losses: Losses, *, prefix: str = "") -> dict[str, Any]:
    """Return the columns of the times to `SHARES` of a curve's first loss.

    >>> times([0, 1, 2], [1.0, 0.25, 0.0625])["epochs_to_half"]
    0.5
    """
    start = losses[0] or 0.0
    by_share = {name: epochs_to(share * start, epochs, losses) for name, share in SHARES.items()}
    return time_columns(by_share, prefix=prefix)


def time_columns(by_share: Mapping[str, float], *, prefix: str = "") -> dict[str, Any]:
    """Return times by the names of `SHARES` as columns, missing where they are infinite."""
    return {f"{prefix}epochs_to_{n}": t if math.isfinite(t) else None for n, t in by_share.items()}


def parted(epochs: Sequence[int], real: Losses, predicted: Losses) -> float | None:
    """Return the first epoch at which a prediction is off by `PARTED` of the real loss.

    >>> parted([0, 1, 2], [1.0, 0.5, 0.2], [1.0, 0.46, 0.1])
    2.0
    """
    here, there = (np.array(losses, dtype=float) for losses in (real, predicted))
    off = ~(np.abs(there - here) <= PARTED * here)
    return float(epochs[int(np.argmax(off))]) if off.any() else None
