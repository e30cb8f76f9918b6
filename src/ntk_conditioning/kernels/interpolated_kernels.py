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

from ntk_conditioning.kernels.depth_profiles import layer_by_layer
from ntk_conditioning.kernels.infinite_network import EPS
from ntk_conditioning.networks.activations import Activation, Array

#: Maps cosine distances of samples, 1 - x · x', to those of a kernel.
Distances = Callable[[Array], Array]

#: Nodes between tan θ/2 and e times it, those at θ = 5e-9 and π less it, and the spline's degree.
NODES, END, DEGREE = 90, -np.log(5e-9 / 2), 7
AT = np.linspace(-END, END, 2 * int(END * NODES) + 1)
#: Relative error of a value for the rounding of its logarithm, which is some -40 at least.
SPLINE_ROUNDING = 64 * EPS
#: Smaller values of e are taken for this one: layers of an ordered phase may make them subnormal.
TINY = 1e-300


@dataclass(frozen=True)
class Table:
    """The function e of one activation and depth; call it with distances of any shape."""

    spline: BSpline
    errors: Array
    opposite: float  # e(2), which float64 has no nodes close enough to

    def __call__(self, w: Array) -> Array:
        e = np.exp(self.spline(_position(w))) * np.minimum(w / FIRST, 1)
        return np.where(w < 2, e, self.opposite)

    def error(self, w: Array, input_error: float = 0.0) -> float:
        """Return a bound on the errors of e at ``w``, by the table, rounding and the dual's error.

        As e is concave up to 1 and vanishes at 0, an error δ of a distance is one of at most
        e δ / w there; beyond, the slope at 2 - g is no larger than that at g. Nor is it more than
        e(δ), as the kernel has no negative coefficient. Before the first node, e itself counts.
        """
        first, last = np.searchsorted(AT, _position(np.array([w.min(), w.max()])))
        error = self.errors[max(0, first - 2) : last + 1].max()
        if ((w > 0) & (w < FIRST)).any():
            error += self(FIRST)
        moved, closest = self(np.array(input_error)), np.minimum(w.min(), 2 - w.max())
        if closest > 0:
            moved = np.minimum(moved, self(closest) / closest * input_error)
        return float(error + moved)


def tables(activation: Activation, depths: Iterable[int]) -> dict[int, Table]:
    """Return a table of e for each of the depths; they work in float64, in any shape.

    >>> from ntk_conditioning.networks import activations
    >>> round(float(1 - tables(activations.get("relu"), [1])[1](np.array(1.0))) * np.pi, 12)
    0.5
    """
    wanted, result = set(depths), {}
    # halfway between two nodes the spline's error is seen
    halfway = (AT[1:] + AT[:-1]) / 2
    x = np.concatenate([AT, halfway, [np.inf]])
    layers = layer_by_layer(activation, _distance(x), 2 * np.arctan(np.exp(x)))
    for layer in islice(layers, max(wanted, default=-1) + 1):
        if layer.depth in wanted:
            e, error = np.maximum(layer.ntk.distances, TINY), layer.ntk.errors[: len(AT)]
            at_nodes, between, opposite = np.split(e, [len(AT), -1])
            spline = make_interp_spline(AT, np.log(at_nodes), k=DEGREE)
            off = np.abs(np.exp(spline(halfway)) - between)
            seen = 2 * np.maximum(np.append(off, 0), np.append(0, off))
            errors = error + seen + SPLINE_ROUNDING * at_nodes
            result[layer.depth] = Table(spline, errors, float(opposite[0]))
    return result


def _distance(x: Array) -> Array:
    """Return 1 - cos θ at x = log tan θ/2."""
    return np.asarray(2 / (1 + np.exp(-2 * x)))


def _position(w: Array) -> Array:
    """Return x, within the table, at w = 1 - cos θ."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log(w / np.maximum(2 - w, 0)) / 2, -END, END)


FIRST = _distance(AT[0])
