"""Fully connected networks in the NTK parameterisation, and their gradients in factored form.

With L hidden layers, weights N(0, 1) and no biases (liu2023relu, Eqs. 1 and 3),

    alpha_0 = x,   z_l = W_l alpha_(l-1),   alpha_l = gain/sqrt(m_l) sigma(z_l),
    f(x) = W_(L+1) alpha_L.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning import threads
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation

#: Samples whose gradients are computed at once, by device: on a CPU they stay in the caches.
PART = {"cpu": 256, "cuda": 8192}
LEAST_PARTS = 2  # for which a thread of a CPU is worth starting


class ShapeError(UserError):
    """Weights or inputs do not fit together in shape, type or place."""


class NotLinearError(UserError):
    """The network has an activation other than the identity."""


@dataclass(frozen=True, eq=False)
class MLP:
    """A network with one output: weights from the input on, and the activation between them.

    ``weights`` are W_1 (m_1, d), …, W_L (m_L, m_(L-1)), W_(L+1) (1, m_L); at depth 0 W_1 (1, d).

    Raises `ShapeError` if the weights do not chain.
    """

    weights: tuple[Tensor, ...]
    activation: Activation

    def __post_init__(self) -> None:
        shapes = [tuple(w.shape) for w in self.weights]
        matrices = bool(shapes) and all(len(shape) == 2 for shape in shapes)
        if not matrices or any(a[0] != b[1] for a, b in pairwise([*shapes, (0, 1)])):
            raise ShapeError(f"weights of shapes {shapes} do not make a network of one output")
        if self.depth:  # its quadrature must not first run inside a caller's torch.func transform
            _ = self.activation.gain

    @property
    def depth(self) -> int:
        """The number of hidden layers L."""
        return len(self.weights) - 1

    @property
    def dim(self) -> int:
        """The number of inputs d."""
        return self.weights[0].shape[1]

    @property
    def width(self) -> int:
        """The number of units of the widest hidden layer; 0 at depth 0."""
        return max((w.shape[0] for w in self.weights[:-1]), default=0)

    @property
    def dtype(self) -> torch.dtype:
        return self.weights[0].dtype

    @property
    def device(self) -> torch.device:
        return self.weights[0].device

    def scale(self, layer: int) -> float:
        """The factor gain/sqrt(m_l) after hidden layer l = 1, …, L."""
        return self.activation.gain / math.sqrt(self.weights[layer - 1].shape[0])

    def to(self, dtype: torch.dtype) -> MLP:
        """The same network, on the same device, with weights of another dtype."""
        return MLP(tuple(w.to(dtype) for w in self.weights), self.activation)


def init_mlp(
    d: int,
    *,
    depth: int,
    width: int,
    activation: Activation | str,
    generator: np.random.Generator,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> MLP:
    """Return a network of one output on ``d`` inputs, with all weights drawn from N(0, 1).

    It has ``depth`` hidden layers of ``width`` units, and weights of ``dtype`` on ``device``.
    ``activation`` is an `Activation` or a name that `activations.get` knows. ``generator`` is a
    NumPy generator, not a `torch.Generator`: weights are drawn on the host in float64, so that one
    seed gives the same network on every device, and the same first layers at every depth.

    Raises:
        ShapeError: if ``d`` or ``width`` is below 1, or ``depth`` is negative.
        UnknownActivationError: if ``activation`` names none.

    >>> generator = np.random.default_rng(0)
    >>> mlp = init_mlp(3, depth=2, width=8, activation="relu", generator=generator)
    >>> [tuple(weight.shape) for weight in mlp.weights]
    [(8, 3), (8, 8), (1, 8)]
    """
    sigma = activations.get(activation)
    if d < 1 or width < 1 or depth < 0:
        raise ShapeError(f"no network has {d} inputs, depth {depth} and width {width}")
    weights = draw_weights(d, depth=depth, width=width, outputs=1, generator=generator)
    return MLP(tuple(w.to(device=device, dtype=dtype) for w in weights), sigma)


def draw_weights(
    d: int, *, depth: int, width: int, outputs: int, generator: np.random.Generator
) -> Iterator[Tensor]:
    """Yield N(0, 1) weights, W_1 (width, d) to W_(L+1) (outputs, width), in float64 on the CPU.

    NumPy draws them in this order, so that networks from one seed share their first layers.
    """
    for columns, rows in pairwise([d, *[width] * depth, outputs]):
        yield torch.from_numpy(generator.standard_normal((rows, columns)))


def check_inputs(mlp: MLP, x: Tensor) -> None:
    """Raise `ShapeError` unless ``x`` is a batch (n, d) that ``mlp`` takes as it is."""
    if not isinstance(x, Tensor):
        raise ShapeError(f"inputs are a {type(x).__name__}; convert them with torch.from_numpy")
    if x.ndim != 2 or x.shape[1] != mlp.dim:
        raise ShapeError(f"inputs have shape {tuple(x.shape)}; the network takes (n, {mlp.dim})")
    if x.dtype != mlp.dtype or x.device != mlp.device:
        raise ShapeError(
            f"inputs are {x.dtype} on {x.device}, the network is {mlp.dtype} on {mlp.device}"
        )


def forward(mlp: MLP, x: Tensor) -> Tensor:
    """Return the outputs (n,) of ``mlp`` on the rows of ``x`` (n, d), of its dtype, on its device.

    Raises `ShapeError` if ``x`` does not fit the network.
    """
    return (embeddings(mlp, x) @ mlp.weights[-1].T).squeeze(1)


def embeddings(mlp: MLP, x: Tensor) -> Tensor:
    """Return alpha_L (n, m_L), the outputs of the last hidden layer, on ``x`` (n, d).

    They have the network's dtype and device. Raises `ShapeError` if ``x`` does not fit it.
    """
    check_inputs(mlp, x)
    alpha = x
    for layer, weight in enumerate(mlp.weights[:-1], start=1):
        alpha = mlp.scale(layer) * mlp.activation.function(alpha @ weight.T)
    return alpha


@dataclass(frozen=True, eq=False)
class GradientFactors:
    """Gradients of many samples as outer products, layer by layer.

    The gradient of f(x_i) in W_l is the matrix delta_l(i) alpha_(l-1)(i)^T, a row of
    ``deltas[l-1]`` (n, m_l) times a row of ``alphas[l-1]`` (n, m_(l-1)). There is one more alpha
    than there are deltas: the delta of the last layer is 1 for every sample and is not stored.
    """

    alphas: tuple[Tensor, ...]
    deltas: tuple[Tensor, ...]

    def _each(self, change: Callable[[Tensor], Tensor]) -> GradientFactors:
        return GradientFactors(tuple(map(change, self.alphas)), tuple(map(change, self.deltas)))

    def rows(self, rows: slice | Tensor) -> GradientFactors:
        """The gradients of some of the samples, by a slice or by their numbers."""
        return self._each(lambda factor: factor[rows])

    def empty(self, n: int, dtype: torch.dtype) -> GradientFactors:
        """Room for the gradients of ``n`` samples of the same network."""
        return self._each(lambda factor: factor.new_empty(n, factor.shape[1], dtype=dtype))

    def squared_norms(self) -> Tensor:
        """The squared gradient norms (n,): sum over l of |alpha_(l-1)|² |delta_l|²."""
        total = _squared_rows(self.alphas[-1])
        for alpha, delta in zip(self.alphas, self.deltas, strict=False):
            total += _squared_rows(alpha) * _squared_rows(delta)
        return total


def _squared_rows(a: Tensor) -> Tensor:
    # in one pass, without a temporary of the matrix's size
    norms: Tensor = torch.linalg.vector_norm(a, dim=1)
    return norms.square_()


@torch.no_grad()
def gradient_factors(mlp: MLP, x: Tensor) -> GradientFactors:
    """Return the factored gradients of ``mlp`` at every row of ``x`` (n, d), by one pass each way.

    delta_(L+1) = 1,   delta_l = gain/sqrt(m_l) sigma'(z_l) * (W_(l+1)^T delta_(l+1)).

    They have the network's dtype and device. Raises `ShapeError` if ``x`` does not fit it.
    """
    check_inputs(mlp, x)
    widths = [weight.shape[0] for weight in mlp.weights[:-1]]
    alphas, deltas = ([x.new_empty(len(x), width) for width in widths] for _ in range(2))
    factors = GradientFactors((x, *alphas), tuple(deltas))
    threads.each(lambda rows: _fill(mlp, factors.rows(rows)), *parts(len(x), x.device))
    return factors


def parts(n: int, device: torch.device) -> tuple[list[slice], int]:
    """Return parts of ``n`` samples, and how many to work on at once, see `threads.each`."""
    part, at_once = PART.get(device.type, PART["cuda"]), threads.count(device)
    if n <= LEAST_PARTS * at_once * part:
        part, at_once = part * at_once, 1
    else:
        part = math.ceil(n / (at_once * math.ceil(n / (at_once * part))))
    return [slice(top, top + part) for top in range(0, n, part)], at_once


def _fill(mlp: MLP, factors: GradientFactors) -> None:
    """Set the factors of a few samples, of which the first alpha is given."""
    alphas, deltas, slopes = factors.alphas, factors.deltas, []
    for layer, weight in enumerate(mlp.weights[:-1], start=1):
        scale, out = mlp.scale(layer), alphas[layer]
        if is_in_place(mlp.activation):  # and homogeneous: the scale goes into the product
            z = product(alphas[layer - 1], weight.T, scale, out=out)
            _, slope = activate(mlp.activation, z)
        else:
            value, slope = activate(mlp.activation, alphas[layer - 1] @ weight.T)
            torch.mul(value, scale, out=out)
        slopes.append(slope)
    for layer in range(mlp.depth, 0, -1):
        scale, weight, out = mlp.scale(layer), mlp.weights[layer], deltas[layer - 1]
        if layer < mlp.depth:
            product(deltas[layer], weight, scale, out=out)
        else:
            out.copy_(scale * weight)  # the same for every sample
        slopes.pop()(out)


def activate(activation: Activation, z: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return sigma(z) and a function that multiplies by sigma'(z) in place.

    ``z`` may become the result, and must not be changed until the slope is taken.
    """
    slope = activation.negative_slope
    if slope is None or not is_in_place(activation):
        return activation.function(z), lambda back: back.mul_(activation.derivative(z))
    if slope == 1:
        return z, lambda back: back
    value = torch.nn.functional.leaky_relu_(z, slope)
    times_slope = torch.ops.aten.leaky_relu_backward.grad_input
    return value, lambda back: times_slope(back, value, slope, True, grad_input=back)


def is_in_place(activation: Activation) -> bool:
    """Return whether sigma(z) has the sign of z, so that it takes z's place, see `activate`."""
    return activation.negative_slope is not None and activation.negative_slope >= 0


def product(a: Tensor, b: Tensor, scale: float, out: Tensor | None = None) -> Tensor:
    """Return scale · a b, of matrices or of stacks of matrices."""
    multiply = torch.addmm if a.ndim == 2 else torch.baddbmm
    nothing = a.new_empty(()) if out is None else out
    return multiply(nothing, a, b, beta=0, alpha=scale, out=out)


def is_linear(mlp: MLP) -> bool:
    """Return whether the network's output is linear in its input."""
    return mlp.depth == 0 or mlp.activation.negative_slope == 1


@torch.no_grad()
def linear_factor(mlp: MLP, x: Tensor) -> Tensor:
    """Return F (n, q) with F F^T the NTK of a linear network, for `conditioning_from_factor`.

    There delta_l is the same vector b_l for every sample, so that F is (|b_1| A_0, …,
    |b_(L+1)| A_L), or x M with `linear_map` if n > d. It has the network's dtype and device.

    Raises:
        NotLinearError: if the network has hidden layers whose activation is not linear.
        ShapeError: if ``x`` (n, d) does not fit the network.
    """
    if len(x) > mlp.dim:
        check_inputs(mlp, x)
        return x @ linear_map(mlp)
    _require_linear(mlp)
    factors = gradient_factors(mlp, x)
    sizes = [*(torch.linalg.vector_norm(delta[0]) for delta in factors.deltas), 1.0]
    return torch.cat([a * b for a, b in zip(factors.alphas, sizes, strict=True)], dim=1)


def linear_map(mlp: MLP) -> Tensor:
    """Return M (d, d) with x M M^T x'^T the NTK of a linear network; errors as `linear_factor`."""
    return _triangle(mlp, linear_factor)


@torch.no_grad()
def linear_embedding_map(mlp: MLP) -> Tensor:
    """Return M (d, min(d, m_L)) with x M M^T x'^T the NNGP kernel of a linear network."""
    _require_linear(mlp)
    return _triangle(mlp, embeddings)


def _triangle(mlp: MLP, maps: Callable[[MLP, Tensor], Tensor]) -> Tensor:
    """Return maps from the input, the values at the rows of the identity, less their directions."""
    identity = torch.eye(mlp.dim, dtype=mlp.dtype, device=mlp.device)
    triangle: Tensor = torch.linalg.qr(maps(mlp, identity).T, mode="r").R
    return triangle.T


def _require_linear(mlp: MLP) -> None:
    if not is_linear(mlp):
        raise NotLinearError(f"a network of {mlp.activation.name} has no linear factor; use ntk")
