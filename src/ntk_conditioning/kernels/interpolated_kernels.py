"""NTKs of infinite width as functions of the distance of two samples, tabulated for many pairs.

On the unit sphere Θ(x, x') = Θ(x, x) (1 - e(w)) with one function e of w = 1 - x · x' for each
activation and depth. Its table serves any number of samples, where `along_depth` sends each pair
through all layers. e has structure at all scales near w = 0 and, of odd activations, near w = 2;
log e is smooth over ½ log (w / (2 - w)), the logarithm of tan θ/2.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.interpolate import BSpline, make_interp_spline

from ntk_conditioning.duals.closed_forms import angle_of
from ntk_conditioning.kernels.depth_profiles import layer_by_layer
from ntk_conditioning.kernels.infinite_network import EPS
from ntk_conditioning.networks.activations import Activation, Array

#: Maps cosine distances of samples, 1 - x · x', to those of a kernel.
Distances = Callable[[Array], Array]

#: Nodes between tan θ/2 and e times it, where they begin, and the degree of the spline.
NODES, SMALLEST, DEGREE = 90, 5e-9, 7
#: Relative error of a value for the rounding of its logarithm, which is some -40 at least.
SPLINE_ROUNDING = 64 * EPS
#: Smaller values of e are taken for this one: layers of an ordered phase may make them subnormal.
TINY = 1e-300


def ntk_distances(activation: Activation, depth: int) -> Distances:
    """Return the function e(w) = 1 - Θ(x, x') / Θ(x, x) of cosine distances w = 1 - x · x'.

    It takes and returns float64 arrays of any shape, and goes through all layers for each entry.

    >>> from ntk_conditioning.networks import activations
    >>> far = ntk_distances(activations.get("relu"), 1)(np.array(1.0))
    >>> round(float(1 - far) * np.pi, 12)
    0.5
    """

    def distances(w: Array) -> Array:
        layers = layer_by_layer(activation, w, angle_of(w))
        return next(islice(layers, depth, None)).e

    return distances


@dataclass(frozen=True)
class Table:
    """The function e of one activation and depth; call it with distances of any shape."""

    depth: int
    spline: BSpline
    errors: Array
    opposite: float  # e(2), which float64 has no nodes close enough to

    def __call__(self, w: Array) -> Array:
        within = np.maximum(w, _distance(self.spline.t[0]))
        e = np.exp(self.spline(self._node_position(within))) * (w / within)
        return np.where(w < 2, e, self.opposite)

    def error(self, w: Array, input_error: float = 0.0) -> float:
        """Return a bound on the errors of e at ``w``, by the table, rounding and the dual's error.

        As e is concave up to 1 and vanishes at 0, an error δ of a distance is one of at most
        e δ / w there; beyond, the slope at 2 - g is no larger than that at g. Nor is it more than
        e(δ), as the kernel has no negative coefficient. Closer than the table's first node, e
        itself is counted.
        """
        closest, furthest = w.min(), w.max()
        step = len(self.errors) / (self.spline.t[-1] - self.spline.t[0])
        ends = (self._node_position(np.array([closest, furthest])) - self.spline.t[0]) * step
        near = self.errors[max(0, int(ends[0]) - 1) : int(ends[1]) + 2].max()
        first = _distance(self.spline.t[0])
        if ((w > 0) & (w < first)).any():
            near += float(self(first))
        if not input_error:
            return float(near)
        closest = min(closest, max(2 - furthest, 0.0))
        slope = float(self(closest) / closest) if closest > 0 else np.inf
        return float(near + min(float(self(np.array(input_error))), slope * input_error))

    def _node_position(self, w: Array) -> Array:
        with np.errstate(divide="ignore"):
            at = np.log(w / np.maximum(2 - w, 0)) / 2
        return np.clip(at, self.spline.t[0], self.spline.t[-1])


def tables(activation: Activation, depths: Iterable[int]) -> dict[int, Table]:
    """Return a table of e for each of the depths; they work in float64, in any shape.

    >>> from ntk_conditioning.networks import activations
    >>> relu = tables(activations.get("relu"), [1])[1]
    >>> w = np.array([1e-12, 0.1, 2.0])
    >>> bool(np.allclose(relu(w), ntk_distances(activations.get("relu"), 1)(w), rtol=1e-11))
    True
    """
    wanted = set(depths)
    most = -np.log(SMALLEST / 2)
    x = np.linspace(-most, most, 2 * int(most * NODES) + 1)
    # every second is between two nodes, where the spline's error is seen
    at = np.sort(np.append(x, (x[1:] + x[:-1]) / 2))
    w, theta = np.append(_distance(at), 2.0), np.append(2 * np.arctan(np.exp(at)), np.pi)
    table_of = {}
    layers = layer_by_layer(activation, w, theta)
    for depth, now in zip(range(max(wanted, default=-1) + 1), layers, strict=False):
        if depth in wanted:
            e = np.maximum(now.e, TINY)
            e, opposite = e[:-1], float(e[-1])
            spline = make_interp_spline(x, np.log(e[::2]), k=DEGREE)
            between = np.abs(np.exp(spline((x[1:] + x[:-1]) / 2)) - e[1::2])
            seen = 2 * np.maximum(np.append(between, 0), np.append(0, between))
            table_of[depth] = Table(
                depth, spline, now.e_error[:-1:2] + seen + SPLINE_ROUNDING * e[::2], opposite
            )
    return table_of


def _distance(x: Array) -> Array:
    """Return 1 - cos θ at x = log tan θ/2."""
    return np.asarray(2 / (1 + np.exp(-2 * x)))
