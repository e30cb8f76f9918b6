"""Kernels of residual and of biased fully connected networks of infinite width.

`infinite_network` says which networks these are and how the kernels are computed.
"""

from typing import Any

from numpy.typing import ArrayLike

from ntk_conditioning.kernels.infinite_network import InfiniteNetwork
from ntk_conditioning.networks.activations import Array


def nngp(x: ArrayLike, x2: ArrayLike | None = None, **options: Any) -> Array:
    """Return the covariance Σ_f (n, n2) of the outputs, in float64; see `ntk` for ``options``.

    >>> nngp([[3.0, 4.0]], depth=2, activation="relu", branch_scale=1.0).round(12)
    array([[100.]])
    """
    return InfiniteNetwork(x, x2, **options).nngp


def ntk(x: ArrayLike, x2: ArrayLike | None = None, **options: Any) -> Array:
    """Return the neural tangent kernel Θ_f (n, n2) of infinite width, in float64.

    Arguments and errors are those of `infinite.ntk`, but ``depth`` is the number L of blocks. A
    residual network has a ``branch_scale`` s, for deep ones about 1 / sqrt(L); a plain one has
    None. Biases are ``bias_scale`` β times N(0, 1), by default 0. For ReLU each block multiplies
    Σ_ii by 1 + s², and Θ_ii = (2 + L s² / (1 + s²)) Σ_ii.

    Raises `ScaleError`, too, if a scale is no finite number, or negative.

    >>> ntk([[1.0, 0.0]], depth=2, activation="relu", branch_scale=1.0).round(12)
    array([[12.]])
    """
    return InfiniteNetwork(x, x2, **options).ntk
