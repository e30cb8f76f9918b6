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
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.mlp import product
from ntk_conditioning.transition.feedforward import FeedforwardNet, layers

#: Where Lanczos stops: the error of a norm is about the square of it.
TOLERANCE = 1e-4
FULL_SPECTRUM = 64  # size of matrices up to which norms are from all eigenvalues


class ZeroGradientError(UserError):
    """A neuron's gradient is zero, so that it has no angle."""


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


@dataclass(frozen=True)
class LayerAngles:
    """The gradients of a hidden layer's neurons: means over samples, largest of all samples.

    ``cos_mean`` is the mean of |cos| over all pairs i != j (Eq. 22), ``cos_rms`` the root of its
    mean square, ``cos_above`` the share of pairs above a level; ``gradient_max`` is the largest
    |grad z_i|². At the first sample, ``cos_norm`` is the spectral norm of the cosines' matrix,
    which Eq. (18) takes to be 1, and ``jacobian_norm`` that of the inner products of the gradients
    of a_l (Lemma 3).
    """

    layer: int
    width: int
    fan_in: int
    cos_mean: float
    cos_rms: float
    cos_max: float
    cos_above: float
    cos_norm: float
    jacobian_norm: float
    gradient_max: float


def layer_angles(net: FeedforwardNet, x: Tensor, *, level: float = 0.1) -> list[LayerAngles]:
    """Return the angles between neurons' gradients in every hidden layer, over the rows of ``x``.

    ``x`` is (n, d); a layer of one neuron, which has no pairs, is left out.

    Raises `ZeroGradientError` if a neuron has gradient 0.
    """
    slopes = [net.activation.derivative(z[0]) for z in layers(net, x[:1])[1]]
    measured: dict[int, list[tuple[float, ...]]] = defaultdict(list)  # of each sample, by layer
    norms: dict[int, tuple[float, float]] = {}
    for k, sample in enumerate(x, start=1):
        for layer, products in enumerate(gradient_products(net, sample), start=1):
            squared = products.diagonal()
            if not bool((squared > 0).all()):
                raise ZeroGradientError(
                    f"neuron {int(torch.argmin(squared)) + 1} of hidden layer {layer} has gradient "
                    f"0 at sample {k}, and no angle; take an activation that does not vanish"
                )
            pairs = len(products) * (len(products) - 1)
            if not pairs:
                continue
            inverse, slope = squared.rsqrt(), slopes[layer - 1]
            cosines = (products * inverse[:, None]).mul_(inverse).fill_diagonal_(1.0)
            if k == 1:
                jacobian = slope[:, None] * products * slope
                norms[layer] = spectral_norm(cosines), spectral_norm(jacobian)
            cosines = cosines.abs_().fill_diagonal_(0).flatten()
            sums = cosines.sum(), cosines @ cosines, torch.count_nonzero(cosines > level)
            mean, square, above = (float(total) / pairs for total in sums)
            largest = float(cosines.max()), float(squared.max())
            measured[layer].append((mean, square, above, *largest))
    angles = []
    for layer, values in measured.items():
        mean, square, above, highest, largest = np.transpose(values)
        of_cosines = mean.mean(), math.sqrt(square.mean()), highest.max(), above.mean()
        numbers = map(float, (*of_cosines, *norms[layer], largest.max()))
        angles.append(LayerAngles(layer, net.hidden[layer - 1], net.fan_ins[layer - 1], *numbers))
    return angles


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
    ``tol`` is relative, ``ncv`` how many vectors are kept. Raises `UserError` without convergence.
    """
    if len(like) == 1:  # eigsh takes two or more
        one = torch.ones_like(like)
        return float(operator(one)), one

    def times(v: NDArray[np.float64]) -> NDArray[np.float64]:
        vector = torch.from_numpy(np.ascontiguousarray(v.reshape(-1))).to(like)
        return np.asarray(operator(vector).cpu().numpy())

    # A fixed start: the same operator gives the same bytes.
    start = np.random.default_rng(0).standard_normal(len(like))
    linear = LinearOperator((len(like), len(like)), matvec=times, dtype=np.float64)
    try:
        values, vectors = eigsh(linear, k=1, which="LM", v0=start, tol=tol, ncv=ncv)
    except ArpackNoConvergence as error:
        raise UserError(f"the largest eigenvalue did not converge: {error}") from error
    return float(values[0]), torch.from_numpy(vectors[:, 0].copy()).to(like)
