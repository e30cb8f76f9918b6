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
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ntk_conditioning.angles.pairs import require_directions, upper_tiles
from ntk_conditioning.duals.closed_forms import Dual, angle_of
from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels.infinite_network import (
    SamplesError,
    UnresolvedKernelError,
    real_numbers,
    require_cosines,
    resolved_dual,
)
from ntk_conditioning.kernels.patches import square_distances, sum_of_patch, unit_patches
from ntk_conditioning.memory import GB, NotEnoughMemoryError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation, Array

Pooling = Literal["none", "average"]

PAIRS = 2**18  # pairs of pixels in a tile: larger tiles are no faster
ARRAYS = 32  # arrays of a tile's size that exist at once, with erf's dual
MEMORY = GB  # bytes that they may take


class ConvolutionError(UserError):
    """The kernel size is even or not positive, or no pooling has this name."""


@dataclass(frozen=True, eq=False)
class Kernels:
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
        SamplesError: if ``x`` is no array of finite images, or a depth is negative.
        ConvolutionError: if ``kernel_size`` is even or not positive, or ``pooling`` unknown.
        ZeroRowError: if an image is zero.
        UnknownActivationError: if ``activation`` names none.
        NotEnoughMemoryError: if one pair of images takes more than `MEMORY`.
        UnresolvedKernelError: if squares of pixels, or kernels, leave the range of float64, or
            cosines are not known to `TOLERATED`.

    >>> [linear] = kernels(np.ones((1, 3, 2, 2)), depths=[0], activation="relu", pooling="average")
    >>> linear.ntk
    array([[3.]])
    """
    images, depths = _images(x), sorted(set(depths))
    if depths and depths[0] < 0:
        raise SamplesError(f"depth {depths[0]} is negative; it counts convolutions")
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise ConvolutionError(f"kernel size {kernel_size}; give an odd, positive number")
    if pooling not in get_args(Pooling):
        raise ConvolutionError(f"no pooling is called {pooling!r}; give 'none' or 'average'")
    side, pooled = _tile_side(images.shape[2] * images.shape[3], pooling), pooling == "average"
    network = _Network(images, depths, activations.get(activation), pooled=pooled, taps=kernel_size)
    n = len(images)
    results = [Kernels(depth, *np.empty((2, n, n))) for depth in depths]
    for rows, columns in upper_tiles(n, side):
        for kernel, blocks in zip(results, network.blocks(rows, columns), strict=True):
            for matrix, block in zip((kernel.nngp, kernel.ntk), blocks, strict=True):
                if not np.isfinite(block).all():
                    raise UnresolvedKernelError(network.out_of_range)
                if rows == columns:
                    block = np.triu(block) + np.triu(block, 1).T
                matrix[rows, columns] = block
                matrix[columns, rows] = block.T
    return results


@dataclass(frozen=True)
class _Hidden:
    """Standard deviations (n, P) at a convolution: of h^(l-1), u^(l), h^(l) and the derivative.

    ``slopes`` are 0 where ``patches`` are; ``means`` are g E σ(u), if patches of zeros need them.
    """

    dual: Dual
    inputs: Array
    patches: Array
    outputs: Array
    slopes: Array
    means: Array | None


class _Network:
    """The recursion over tiles of pairs of images, for pairs of pixels (group, row, column).

    With pooling a row is a position of an image, and there is one group; without, a row is an
    image, and there is a group for each position.
    """

    def __init__(
        self, images: Array, depths: list[int], sigma: Activation, *, pooled: bool, taps: int
    ) -> None:
        n, colours, self._height, self._width = images.shape
        self._pooled, self._taps, self._depths = pooled, taps, depths
        self._pixels = images.reshape(n, colours, -1).transpose(0, 2, 1)
        self._images, self._name = images, f"{sigma.name} at depth {max(depths, default=0)}"
        self.out_of_range = (
            f"{self._name}: the kernel leaves float64's range, "
            f"for pixels as large as {np.abs(images).max():.3g}; scale the images"
        )
        with np.errstate(over="ignore"):
            q = np.einsum("npc,npc->np", self._pixels, self._pixels)
        in_range = np.isfinite(q) & (q >= np.finfo(np.float64).tiny)
        if not (in_range | ~self._pixels.any(axis=2)).all():
            raise UnresolvedKernelError(self.out_of_range)
        self._shape = q.shape
        self._layers: list[_Hidden] = []
        for _ in range(max(depths, default=0)):
            hidden = self._hidden(q, sigma)
            self._layers.append(hidden)
            q = hidden.outputs**2
        error = math.fsum(hidden.dual.error for hidden in self._layers)
        require_cosines(error, network=self._name, x=images)

    def _hidden(self, q: Array, sigma: Activation) -> _Hidden:
        grid = q.reshape(-1, self._height, self._width)
        with np.errstate(over="ignore"):
            sums = sum_of_patch(grid, [(1,), (2,)], self._taps)
        variances = sums.reshape(q.shape) / self._taps**2
        if not np.isfinite(variances).all():
            raise UnresolvedKernelError(self.out_of_range)
        zero = variances == 0
        positive = np.where(zero, variances[~zero].min(), variances)  # stand-ins count nowhere
        q_of_patches = positive.ravel() if self._pooled else positive.T.ravel()
        layer = resolved_dual(sigma, q_of_patches, network=self._name, x=self._images)
        after, slopes = (
            values.reshape(q.shape) if self._pooled else values.reshape(q.shape[::-1]).T
            for values in (layer.variances, layer.slopes)
        )
        means, at_zero = None, 0.0
        if zero.any():
            at_zero = sigma.gain * float(sigma.values(np.zeros(1))[0])
            after, slopes = np.where(zero, at_zero**2, after), np.where(zero, 0.0, slopes)
        if at_zero:
            some, where = np.unique(variances, return_inverse=True)
            mean = [sigma.gain * sigma.expectation(np.asarray, q=v) if v else at_zero for v in some]
            means = np.array(mean)[where].reshape(variances.shape)
        return _Hidden(
            layer, np.sqrt(q), np.sqrt(variances), np.sqrt(after), np.sqrt(slopes), means
        )

    def blocks(self, rows: slice, columns: slice) -> Iterator[tuple[Array, Array]]:
        """Yield NNGP and NTK of a tile of pairs of images, at each of the depths."""
        both = rows, columns
        left, right = (self._groups(self._pixels[part]) for part in both)
        covariance, tangent, defect = left @ right.swapaxes(1, 2), np.zeros(()), np.zeros(())
        for depth in range(max(self._depths, default=-1) + 1):
            if depth:
                layer = self._layers[depth - 1]
                with np.errstate(all="ignore"):
                    scale = self._outer(layer.patches, *both)
                    if depth == 1:
                        w, theta = self._angles(*both)
                        tangent = scale * (1 - w)
                    else:
                        patches = (self._patches(layer.inputs[part, :, None]) for part in both)
                        w = square_distances(*patches) / 2
                        w += self._mean_over_taps(defect, *both) / np.where(scale > 0, scale, 1)
                        tangent = scale * (1 - w) + self._mean_over_taps(tangent, *both)
                        theta = angle_of(w)
                    w, h = self._apply_dual(layer.dual, w, theta, *both)
                    tangent *= self._outer(layer.slopes, *both) * (1 - h)
                    defect = self._defect(layer, w, scale, *both)
                    covariance = self._outer(layer.outputs, *both) - defect
            if depth in self._depths:
                yield self._readout(covariance), self._readout(covariance + tangent)

    def _angles(self, rows: slice, columns: slice) -> tuple[Array, Array]:
        """Return 1 - cos θ and θ of patches, right near 0 and, as of constant ones, near π."""
        left, right = (self._patches(self._pixels[part]) for part in (rows, columns))
        square = square_distances(left, right)
        sums = np.sqrt(square_distances(left, -right))
        return square / 2, np.asarray(2 * np.arctan2(np.sqrt(square), sums))

    def _defect(self, layer: _Hidden, w: Array, scale: Array, rows: slice, columns: slice) -> Array:
        """Return s s - Σ of a tile after a layer."""
        outputs = self._outer(layer.outputs, rows, columns)
        if layer.means is None:
            return np.asarray(outputs * w)
        at_zero = outputs - self._outer(layer.means, rows, columns)
        return np.where(scale > 0, outputs * w, np.maximum(at_zero, 0))

    def _apply_dual(
        self, layer: Dual, w: Array, theta: Array, rows: slice, columns: slice
    ) -> tuple[Array, Array]:
        """Return w' and h."""
        n, positions = self._shape
        step, group = (positions, 0) if self._pooled else (1, n)
        results = [
            layer.cosine_distances(
                slice(p * group + rows.start * step, p * group + rows.stop * step),
                slice(p * group + columns.start * step, p * group + columns.stop * step),
                *pairs,
            )
            for p, pairs in enumerate(zip(w, theta, strict=True))
        ]
        after, slopes = zip(*results, strict=True)
        return np.stack(after), np.stack(slopes)

    def _groups(self, values: Array) -> Array:
        """Return values (image, P, ...) as (group, row, ...)."""
        return values.reshape(1, -1, *values.shape[2:]) if self._pooled else values.swapaxes(0, 1)

    def _outer(self, values: Array, rows: slice, columns: slice) -> Array:
        left, right = self._groups(values[rows]), self._groups(values[columns])
        return np.asarray(left[:, :, None] * right[:, None, :])

    def _patches(self, values: Array) -> Array:
        """Return patches of values (image, P, c) as unit vectors (group, row, k² c), or zero."""
        grid = values.reshape(len(values), self._height, self._width, -1)
        return self._groups(unit_patches(grid, self._taps))

    def _mean_over_taps(self, pairs: Array, rows: slice, columns: slice) -> Array:
        """Return A of values at pairs of pixels."""
        sides = [part.stop - part.start for part in (rows, columns)]
        image = self._height, self._width
        if self._pooled:
            grid = pairs.reshape(sides[0], *image, sides[1], *image)
            total = sum_of_patch(grid, [(1, 4), (2, 5)], self._taps)
        else:
            total = sum_of_patch(pairs.reshape(*image, *sides), [(0,), (1,)], self._taps)
        return total.reshape(pairs.shape) / self._taps**2

    def _readout(self, pairs: Array) -> Array:
        """Return the mean (row, column) over the pairs of pixels of two images."""
        if not self._pooled:
            return np.asarray(pairs.mean(axis=0))
        positions = self._shape[1]
        blocks = pairs.reshape(-1, positions, pairs.shape[2] // positions, positions)
        return np.asarray(blocks.mean(axis=(1, 3)))


def _images(x: ArrayLike) -> Array:
    images = real_numbers(x)
    if images.ndim != 4 or images.size == 0:
        raise SamplesError(f"images of shape {images.shape}; give (n, colours, height, width)")
    if not np.isfinite(images).all():
        raise SamplesError("some pixels are infinite or not a number")
    require_directions(images.reshape(len(images), -1))
    return images


def _tile_side(positions: int, pooling: str) -> int:
    """Return how many images a tile of pairs has in rows and in columns."""
    pairs = positions**2 if pooling == "average" else positions
    if 8 * ARRAYS * pairs > MEMORY:
        raise NotEnoughMemoryError(
            f"a pair of images of {positions} pixels takes {8 * ARRAYS * pairs / GB:.2g} GB with "
            f"{pooling} pooling, above {MEMORY / GB:.2g} GB; give smaller images"
        )
    return max(1, math.isqrt(PAIRS // pairs))
