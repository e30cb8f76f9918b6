"""Kernels of convolutional networks of infinitely many channels, by recursions over pixel pairs.

With weights N(0, 1), all trained, no biases, m channels, gain g of the activation, k × k taps and
zeros around the image (stride 1), the network computes for every position p of P

    h^(0) = x,   u^(l)_p = 1/k · Σ_o W_o h^(l-1)_(p+o),   h^(l) = g / sqrt(m) · σ(u^(l)),

and then f = Σ_p w_p · h^(L)_p / sqrt(P) without pooling, or f = w · Σ_p h^(L)_p / P with global
average pooling. Depth L counts convolutions; depth 0 is the linear model.

With A the mean over the taps, (A K)(x_p, y_q) = 1/k² · Σ_o K(x_(p+o), y_(q+o)), by Arora, Du, Hu,
Li, Salakhutdinov & Wang (2019, "On Exact Computation with an Infinitely Wide Neural Net",
section 4), from Σ^(0) = x·y and T^(0) = 0,

    Σ^(l) = g² E σ(u)σ(v),   T^(l) = A(Σ^(l-1) + T^(l-1)) · g² E σ'(u)σ'(v)

with (u, v) ~ N(0, A Σ^(l-1)). NNGP and NTK are means of Σ^(L) and Σ^(L) + T^(L): over equal
positions p = q without pooling, and over all pairs of positions with pooling.

Covariances are carried as standard deviations s and defects s_p s_q - Σ(x_p, y_q) >= 0: with
S² = A s² and unit vectors a of the s_(p+o) / (k S_p),

    S_p S_q - A Σ = S_p S_q |a_p - a_q|² / 2 + A (s s - Σ),

with all digits of small angles. A patch of zeros has σ(0) on all channels, E σ(u)σ(v) is
σ(0) E σ(v), and its gradients vanish.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from ntk_conditioning.angles.pairs import require_directions, upper_tiles
from ntk_conditioning.duals.closed_forms import Dual, angle_of
from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels.infinite_network import (
    SamplesError,
    UnresolvedKernelError,
    require_cosines,
    resolved_dual,
    samples_of,
    set_symmetric,
)
from ntk_conditioning.memory import require
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation, Array

Pooling = Literal["none", "average"]

PAIRS = 2**18  # pairs of pixels in a tile: larger tiles are no faster
ARRAYS = 32  # arrays of a tile's size that exist at once, with erf's dual


class ConvolutionError(UserError):
    """The kernel size is even or not positive, or no pooling has this name."""


class Kernels(NamedTuple):
    """Both kernels (n, n), in float64, after ``depth`` convolutions."""

    depth: int
    nngp: Array
    ntk: Array


def ntk(x: ArrayLike, *, depth: int, **options: Any) -> Array:
    """Return the neural tangent kernel (n, n), in float64; see `kernels` for ``options``.

    >>> ntk(np.ones((1, 1, 1, 1)), depth=2, activation="relu", kernel_size=1).round(12)
    array([[3.]])
    """
    return kernels(x, depths=[depth], **options)[0].ntk


def kernels(
    x: ArrayLike,
    *,
    depths: Iterable[int],
    activation: Activation | str,
    pooling: Pooling = "none",
    kernel_size: int = 3,
) -> list[Kernels]:
    """Return the kernels of images at ``depths``, ascending, by the recursion at the module's top.

    ``x`` (n, colours, height, width) is an array or tensor. The kernels are exactly symmetric.
    Pre-activations have variance 1 where the squares over a patch sum to k²: scale images to about
    that, unless the activation is homogeneous.

    Raises:
        SamplesError: if ``x`` is no array of finite images, or a depth is negative or not whole.
        ConvolutionError: if ``kernel_size`` is even or not positive, or ``pooling`` unknown.
        ZeroRowError: if an image is zero.
        UnknownActivationError: if ``activation`` names none.
        NotEnoughMemoryError: if kernels, patches and a tile of pairs exceed the available memory.
        UnresolvedKernelError: if squares of pixels, or kernels, leave the range of float64, or
            cosines are not known to `TOLERATED`.

    >>> [linear] = kernels(np.ones((1, 3, 2, 2)), depths=[0], activation="relu", pooling="average")
    >>> linear.ntk
    array([[3.]])
    """
    images = samples_of(x, ndim=4, form="(n, colours, height, width)")
    require_directions(images.reshape(len(images), -1))
    for depth in (depths := [*depths]):
        if not hasattr(depth, "__index__") or depth < 0:
            raise SamplesError(f"depth {depth!r} is negative or not whole; it counts convolutions")
    depths = sorted(set(depths))
    if not hasattr(kernel_size, "__index__") or kernel_size < 1 or kernel_size % 2 == 0:
        raise ConvolutionError(f"kernel size {kernel_size}; give an odd, positive number")
    if pooling not in get_args(Pooling):
        raise ConvolutionError(f"no pooling is called {pooling!r}; give 'none' or 'average'")
    pooled, positions = pooling == "average", math.prod(images.shape[2:])
    pairs = positions**2 if pooled else positions
    n, deepest = len(images), max(depths, default=0)
    needed = n * positions * kernel_size**2 * (images.shape[1] + deepest)  # for patches
    needed += 2 * len(depths) * n * n + ARRAYS * max(PAIRS, pairs)
    what = f"computing kernels of {n:,} images of {positions:,} pixels"
    require(8 * needed, what, "take fewer or smaller images")
    network = _Network(images, depths, activations.get(activation), pooled=pooled, taps=kernel_size)
    results = [Kernels(depth, *np.empty((2, n, n))) for depth in depths]
    for rows, columns in upper_tiles(n, max(1, math.isqrt(PAIRS // pairs))):
        for kernel, (nngp, ntk) in zip(results, network.blocks(rows, columns), strict=True):
            network.require_range(np.isfinite([nngp, ntk]))
            set_symmetric(kernel.nngp, rows, columns, nngp)
            set_symmetric(kernel.ntk, rows, columns, ntk)
    return results


class _Layer(NamedTuple):
    """A convolution and its activation: the dual, and what pixels have.

    ``units`` (nP, k² c) are patches as unit vectors; ``patches``, ``outputs``, ``slopes`` (nP,) are
    deviations of u, h and the derivative; ``means`` are g E σ(u), if a patch is zero.
    """

    dual: Dual
    units: Array
    patches: Array
    outputs: Array
    slopes: Array
    means: Array | None


class _Network:
    """The recursion over tiles of pairs of images, for pairs of pixels (group, row, column).

    Pixels are numbered image by image. With pooling all pixels of an image are rows, in one group;
    without, a row is an image, and there is a group for each position.
    """

    def __init__(
        self, images: Array, depths: list[int], sigma: Activation, *, pooled: bool, taps: int
    ) -> None:
        self._images, self._depths, self._pooled, self._taps = images, depths, pooled, taps
        self._image, self._positions = images.shape[2:], math.prod(images.shape[2:])
        self._name = f"{sigma.name} at depth {max(depths, default=0)}"
        grid = images.transpose(0, 2, 3, 1)
        self._pixels = grid.reshape(-1, images.shape[1])
        with np.errstate(over="ignore"):
            q = np.einsum("pc,pc->p", self._pixels, self._pixels)
        in_range = np.isfinite(q) & (q >= np.finfo(np.float64).tiny)
        self.require_range(in_range | ~self._pixels.any(axis=1))
        self._layers: list[_Layer] = []
        for _ in range(max(depths, default=0)):
            self._layers.append(self._layer(grid, sigma))
            grid = self._layers[-1].outputs.reshape(-1, *self._image, 1)
        error = math.fsum(layer.dual.error for layer in self._layers)
        require_cosines(error, network=self._name, x=images)

    def require_range(self, in_range: NDArray[np.bool_]) -> None:
        """Raise `UnresolvedKernelError` unless all numbers are in float64's range."""
        if not in_range.all():
            problem = "the kernel leaves float64's range"
            raise UnresolvedKernelError(problem, network=self._name, x=self._images)

    def _layer(self, grid: Array, sigma: Activation) -> _Layer:
        """Return the layer on pixels (n, height, width, c): colours, or standard deviations."""
        reach = self._taps // 2
        padded = np.pad(grid, ((0, 0), (reach, reach), (reach, reach), (0, 0)))
        windows = sliding_window_view(padded, (self._taps, self._taps), (1, 2))
        vectors = windows.reshape(len(self._pixels), -1)
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(vectors, axis=1)
        self.require_range(np.isfinite(norms))
        zero = norms == 0
        units, patches = vectors / np.where(zero, 1, norms)[:, None], norms / self._taps
        positive = np.where(zero, patches[~zero].min(), patches) ** 2  # stand-ins count nowhere
        dual = resolved_dual(sigma, positive, network=self._name, x=self._images)
        means, at_zero = None, 0.0
        if zero.any():
            at_zero = sigma.gain * float(sigma.values(np.zeros(1))[0])
        if at_zero:
            some, where = np.unique(patches**2, return_inverse=True)
            mean = [sigma.gain * sigma.expectation(np.asarray, q=v) if v else at_zero for v in some]
            means = np.array(mean)[where]
        outputs = np.sqrt(np.where(zero, at_zero**2, dual.variances))
        return _Layer(dual, units, patches, outputs, np.sqrt(dual.slopes), means)

    def blocks(self, rows: slice, columns: slice) -> Iterator[tuple[Array, Array]]:
        """Yield NNGP and NTK of a tile of pairs of images, at each of the depths."""
        groups = [*zip(self._groups(rows), self._groups(columns), strict=True)]

        def outer(values: Array) -> Array:
            return np.stack([np.outer(values[r], values[c]) for r, c in groups])

        covariance = np.stack([self._pixels[r] @ self._pixels[c].T for r, c in groups])
        tangent = defect = np.zeros(())
        for depth in range(max(self._depths, default=-1) + 1):
            if depth:
                layer = self._layers[depth - 1]
                units, scale, outputs = layer.units, outer(layer.patches), outer(layer.outputs)
                square = np.stack([cdist(units[r], units[c], "sqeuclidean") for r, c in groups])
                w = square / 2
                if depth == 1:  # angles are right near π, too, as of constant patches
                    sums = np.stack([cdist(units[r], -units[c]) for r, c in groups])
                    theta, tangent = 2 * np.arctan2(np.sqrt(square), sums), scale * (1 - w)
                else:
                    w += self._mean_over_taps(defect) / np.where(scale > 0, scale, 1)
                    theta = angle_of(w)
                    tangent = scale * (1 - w) + self._mean_over_taps(tangent)
                with np.errstate(all="ignore"):
                    after = [
                        layer.dual.cosine_distances(r, c, *pairs)
                        for (r, c), *pairs in zip(groups, w, theta, strict=True)
                    ]
                w, h = (np.stack(distances) for distances in zip(*after, strict=True))
                tangent *= outer(layer.slopes) * (1 - h)
                defect = outputs * w
                if layer.means is not None:
                    at_zero = np.maximum(outputs - outer(layer.means), 0)
                    defect = np.where(scale > 0, defect, at_zero)
                covariance = outputs - defect
            if depth in self._depths:
                yield self._readout(covariance), self._readout(covariance + tangent)

    def _groups(self, images: slice) -> list[slice]:
        """Return the pixels of some images, in groups."""
        start, stop = images.start * self._positions, images.stop * self._positions
        if self._pooled:
            return [slice(start, stop)]
        return [slice(start + p, stop, self._positions) for p in range(self._positions)]

    def _mean_over_taps(self, pairs: Array) -> Array:
        """Return A of values at pairs of pixels. Nothing is subtracted: small ones keep digits."""
        axes: list[tuple[int, ...]]  # which move together
        if self._pooled:
            images = pairs.shape[2] // self._positions
            values = pairs.reshape(-1, *self._image, images, *self._image)
            axes, trace = [(1, 4), (2, 5)], "...ii->..."
        else:
            values = pairs.reshape(*self._image, *pairs.shape[1:])
            axes, trace = [(0,), (1,)], "...i->..."
        for together in axes:
            reach = self._taps // 2 * np.isin(np.arange(values.ndim), together)
            padded = np.pad(values, np.stack([reach, reach], axis=1))
            windows = sliding_window_view(padded, (self._taps,) * len(together), together)
            values = np.einsum(trace, windows)
        return values.reshape(pairs.shape) / self._taps**2

    def _readout(self, pairs: Array) -> Array:
        """Return the mean (row, column) over the pairs of pixels of two images."""
        if not self._pooled:
            return np.asarray(pairs.mean(axis=0))
        shape = -1, self._positions, pairs.shape[2] // self._positions, self._positions
        return np.asarray(pairs.reshape(shape).mean(axis=(1, 3)))
