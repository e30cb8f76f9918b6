"""A place on the map of conditioning: samples on the sphere, and what depth does to them.

Beside the eigenvalues stand those that `random_matrix_predictions` expect: of random samples from
their distribution, of real ones from the mean cosine, the number of samples, and the variances of
what is orthogonal to the mean.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels.interpolated_kernels import TINY, Distances, Table
from ntk_conditioning.networks.activations import Activation, Array
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.spikes import spike_and_bulk
from ntk_conditioning.theory import random_matrix_predictions as predictions
from ntk_conditioning.theory import sphere
from ntk_conditioning.theory.depth import close_gain, far_samples
from ntk_conditioning.theory.random_matrix_predictions import Ends
from ntk_conditioning.theory.sphere import Draw


@dataclass(frozen=True, kw_only=True)
class RandomPlace:
    """``n`` samples in ``d`` dimensions, see `sphere.draw`; uniform has ``parameter`` 0."""

    shape: str
    parameter: float
    n: int
    d: int

    @property
    def keys(self) -> dict[str, Any]:
        """The columns of the table `phase` that name the place."""
        return {**asdict(self), "dataset": ""}

    def draw(self, seed: int) -> Draw:
        """Return the samples that a seed draws, the same for all activations."""
        rng = generator(seed, "data")
        return sphere.draw(self.shape, self.parameter, rng, n=self.n, d=self.d)

    def law(self, distances: Distances) -> Ends:
        """Return where the laws expect the spectrum of a kernel."""
        if self.shape == "uniform":
            return predictions.uniform(distances, n=self.n, d=self.d)
        law: Callable[..., Ends] = getattr(predictions, self.shape)
        return law(distances, self.parameter, n=self.n, d=self.d)


@dataclass(frozen=True, eq=False)
class DataPlace:
    """``n`` of the samples ``x`` (N, d) of a dataset, each divided by its norm."""

    dataset: str
    x: Array
    n: int

    @property
    def keys(self) -> dict[str, Any]:
        """As of a `RandomPlace`; the parameter is the mean cosine."""
        sizes = {"n": self.n, "d": self.x.shape[1]}
        return {"shape": "data", "parameter": self._shape[0], **sizes, "dataset": self.dataset}

    @cached_property
    def _shape(self) -> tuple[float, Array]:
        """The mean cosine, and the variances beside the mean in principal directions, not 0.

        Raises `UserError` if there are fewer than two.
        """
        units = sphere.unit_rows(self.x)
        mean = units.mean(axis=0)
        z = (units - mean) / math.sqrt(len(units) - 1)
        # of two matrices with the same eigenvalues the smaller
        values = np.linalg.eigvalsh(z @ z.T if len(z) < z.shape[1] else z.T @ z)[::-1]
        variances = values[values > len(values) * np.finfo(np.float64).eps * values[0]]
        if len(variances) < 2:
            raise UserError(f"{self.dataset}: samples of norm 1 vary in one direction or none")
        return float(mean @ mean), variances

    def rows(self, seed: int) -> NDArray[np.intp]:
        """Return the samples that a seed draws, ascending."""
        return np.sort(generator(seed, "data").choice(len(self.x), self.n, replace=False))

    def draw(self, seed: int) -> Draw:
        """Return the samples that a seed draws, over their norms."""
        return sphere.over_norms(self.x[self.rows(seed)])

    def law(self, distances: Distances) -> Ends:
        """Return where the laws expect the spectrum of a kernel."""
        c, variances = self._shape
        return predictions.elliptical(distances, variances, c=c, n=self.n)


Place = RandomPlace | DataPlace


def measure(
    place: Place, activation: Activation, functions: Mapping[int, Table], *, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the columns of the table `phase` for the depths of the kernels' ``functions``."""
    draw = place.draw(seed)
    w = draw.distances
    gram = spike_and_bulk(w, error=draw.error)
    common = place.keys | {
        "activation": activation.name,
        "seed": seed,
        "mean_cosine": 1 - float(w.mean()),
        "effective_dimension": sphere.effective_dimension(draw.samples),
        "closest": float(w.min()),
        "gram_kappa": gram.kappa,
        "gram_bulk_kappa": gram.bulk_kappa,
    }
    for depth, function in sorted(functions.items()):
        error = function.error(w, draw.error) + TINY
        spectrum = spike_and_bulk(function(w), error=error)
        law, far = place.law(function), far_samples(function, n=place.n, d=common["d"])
        pair = function(w.min(keepdims=True)).item()
        smallest = min(law.low, pair)
        yield {
            **common,
            "depth": depth,
            **vars(spectrum),
            "pair_bound": pair,
            "law_lambda_max": law.largest,
            "law_bulk_max": law.high,
            "law_lambda_min": law.low,
            "law_kappa": law.largest / smallest if smallest > 0 else None,
            "far_lambda_max": far.largest,
            "far_lambda_min": far.low,
            "close_gain": close_gain(activation, depth),
        }


def law_grid(
    *, samples: int, samples_per_dimension: Sequence[float], closest: float, points: Sequence[int]
) -> Iterator[tuple[int, float]]:
    """Yield dimensions d, from 3 on, and mean cosines c where the table `phase_laws` has the laws.

    The ``points`` are of n/d from its smallest to its largest value, and of 1 - c from ``closest``
    to 1, both evenly in their logarithm.

    >>> [*law_grid(samples=8, samples_per_dimension=[1, 2], closest=0.1, points=[2, 2])]
    [(4, 0.0), (4, 0.9), (8, 0.0), (8, 0.9)]
    """
    (least, most), (across, down) = samples_per_dimension, points
    ratios = np.geomspace(least, most, across)
    dimensions = sorted({round(samples / ratio) for ratio in ratios if samples / ratio >= 3})
    yield from product(dimensions, [0.0, *(1 - np.geomspace(closest, 1, down)[-2::-1]).tolist()])


def laws(distances: Distances, c: float, *, n: int, d: int) -> dict[str, Any]:
    """Return the columns of the table `phase_laws` for equicorrelated samples."""
    shape = "equicorrelated" if c else "uniform"
    ends = RandomPlace(shape=shape, parameter=c, n=n, d=d).law(distances)
    eigenvalues = {"lambda_max": ends.largest, "bulk_max": ends.high, "lambda_min": ends.low}
    kappa = ends.largest / ends.low if ends.low > 0 else None
    return {"n": n, "d": d, "c": c, **eigenvalues, "kappa": kappa}
