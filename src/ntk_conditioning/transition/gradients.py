"""Inner products of the gradients of all neurons of a layer, and the angles between them.

The gradient of a pre-activation z_i of layer l, in the weights up to that layer, has as many
entries as there are weights. Its inner products with the other neurons of the layer need none of
them: with c the layer's input of length m, W its weights and P_0 the inner products of the
gradients of c,

    P = |c|²/m I + W P_0 W^T / m,     P_0 = S P' S,

where P' is P of the neurons that feed the layer and S the diagonal matrix of their sigma'(z)
(liu2022transition, Eqs. (11) and (23)). A layer costs two products of its size for each sample.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from ntk_conditioning.angles.gradient_angle import ZeroGradientError
from ntk_conditioning.networks.mlp import product
from ntk_conditioning.transition.feedforward import FeedforwardNet, layers

#: Where Lanczos stops: the error of a norm is about the square of it.
TOLERANCE = 1e-4
FULL_SPECTRUM = 64  # size of matrices up to which norms are from all eigenvalues


@torch.no_grad()
def gradient_products(
    net: FeedforwardNet, x: Tensor, other: FeedforwardNet | None = None
) -> Iterator[Tensor]:
    """Yield, for each hidden layer, <grad z_i, grad z_j> (m_l, m_l) at one sample ``x`` (d,).

    With ``other``, the same architecture at other weights, the second gradient is taken there.
    """
    inputs, sums = layers(net, x[None])
    inputs2, sums2 = (inputs, sums) if other is None else layers(other, x[None])
    slope = net.activation.derivative
    within = x.new_empty(0, 0)  # of the neurons that feed the layer, the last of them first
    for layer in range(1, len(net.weights)):
        scale, fed = net.scale(layer), len(within)
        shared = scale**2 * (inputs[layer - 1] @ inputs2[layer - 1].T).squeeze()
        weight, weight2 = (each.weights[layer - 1][:, :fed] for each in (net, other or net))
        across = product(weight, within, scale)
        products = product(across, weight2.T, scale)
        products.diagonal().add_(shared)
        s, s2 = slope(sums[layer - 1]), slope(sums2[layer - 1])  # (1, m) each
        if net.dense:
            above = torch.cat([s.T * products * s2, s.T * across], dim=1)
            below = torch.cat([product(within, weight2.T, scale) * s2, within], dim=1)
            within = torch.cat([above, below])
        elif layer < len(net.weights) - 1:
            within = s.T * products * s2
        yield products


def layer_angles(net: FeedforwardNet, x: Tensor, *, level: float = 0.1) -> list[dict[str, Any]]:
    """Return the angles between neurons' gradients in every hidden layer, over the rows of ``x``.

    As columns of the table `orthogonality`; ``x`` is (n, d), and ``cos_above`` the share of pairs
    whose |cos| is above the ``level``. A layer of one neuron, which has no pairs, is left out.

    Raises `ZeroGradientError` if a neuron has gradient 0.
    """
    slopes = [net.activation.derivative(z[0]) for z in layers(net, x[:1])[1]]
    measured: dict[int, list[list[float]]] = defaultdict(list)  # of each sample, by layer
    rows = {}
    for k, sample in enumerate(x, start=1):
        for layer, products in enumerate(gradient_products(net, sample), start=1):
            squared = products.diagonal()
            if not bool((squared > 0).all()):
                raise ZeroGradientError(
                    f"neuron {int(torch.argmin(squared)) + 1} of hidden layer {layer} has gradient "
                    f"0 at sample {k}, and no angle; take an activation that does not vanish"
                )
            if (m := len(products)) == 1:
                continue
            inverse, slope = squared.rsqrt(), slopes[layer - 1]
            cosines = (products * inverse[:, None]).mul_(inverse).fill_diagonal_(1.0)
            if k == 1:
                rows[layer] = {
                    "layer": layer,
                    "layer_width": m,
                    "fan_in": net.fan_ins[layer - 1],
                    "cos_norm": spectral_norm(cosines),
                    "jacobian_norm": spectral_norm(slope[:, None] * products * slope),
                }
            off = cosines.abs_().fill_diagonal_(0).flatten()
            numbers = off.sum(), off @ off, (off > level).sum(), off.max(), squared.max()
            measured[layer].append([float(number) for number in numbers])
    for layer, row in rows.items():
        means, (*_, largest, gradient) = np.mean(measured[layer], 0), np.max(measured[layer], 0)
        mean, square, above = means[:3] / (row["layer_width"] * (row["layer_width"] - 1))
        row |= {"cos_mean": mean, "cos_rms": math.sqrt(square), "cos_max": largest}
        row |= {"cos_above": above, "gradient_max": gradient}
    return [*rows.values()]


def spectral_norm(matrix: Tensor) -> float:
    """Return the largest absolute eigenvalue of a symmetric matrix (m, m)."""
    if not bool(torch.triu(matrix, diagonal=1).any()):
        return float(matrix.diagonal().abs().max())
    if len(matrix) <= FULL_SPECTRUM:
        return float(torch.linalg.eigvalsh(matrix).abs().max())
    return abs(lanczos(lambda v: matrix @ v, matrix[0], tol=TOLERANCE)[0])


def lanczos(
    operator: Callable[[Tensor], Tensor], like: Tensor, *, tol: float, ncv: int | None = None
) -> tuple[float, Tensor]:
    """Return the eigenvalue of largest absolute value and its eigenvector (p,), by SciPy's `eigsh`.

    ``operator`` is symmetric; it takes and returns vectors (p,), of the type and place of ``like``.
    ``tol`` is relative, ``ncv`` how many vectors are kept.
    """

    def times(v: NDArray[np.float64]) -> NDArray[np.float64]:
        vector = torch.from_numpy(np.ascontiguousarray(v.reshape(-1))).to(like)
        return np.asarray(operator(vector).cpu().numpy())

    # A fixed start and fixed restarts: the same operator gives the same bytes.
    rng = np.random.default_rng(0)
    how = {"v0": rng.standard_normal(len(like)), "rng": rng, "tol": tol, "ncv": ncv}
    linear = LinearOperator((len(like), len(like)), matvec=times, dtype=np.float64)
    values, vectors = eigsh(linear, k=1, which="LM", **how)
    return float(values[0]), torch.from_numpy(vectors[:, 0].copy()).to(like)
