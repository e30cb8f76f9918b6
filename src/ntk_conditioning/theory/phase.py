"""A place on the map of conditioning: random samples on the sphere, and what depth does to them.

Beside the eigenvalues stand those that `theory.random_inputs` expects.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ntk_conditioning.kernels.along_depth import along_depth
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.spike_and_bulk import spike_and_bulk
from ntk_conditioning.theory import random_inputs, sphere
from ntk_conditioning.theory.random_inputs import Ends, ntk_distances

#: The name of a shape's one number.
PARAMETERS = {"equicorrelated": "c", "two_clusters": "c", "power_law": "exponent"}


@dataclass(frozen=True, kw_only=True)
class Place:
    """``n`` samples in ``d`` dimensions, of a shape of `sphere.SHAPES` with its ``parameter``.

    Uniform samples have none: it is 0.
    """

    shape: str
    parameter: float
    n: int
    d: int

    @property
    def _given(self) -> dict[str, Any]:
        given: dict[str, Any] = {"n": self.n, "d": self.d}
        if self.shape in PARAMETERS:
            given[PARAMETERS[self.shape]] = self.parameter
        return given

    def samples(self, seed: int) -> sphere.Array:
        """Return the samples (n, d) that a seed draws, the same for all activations."""
        return sphere.SHAPES[self.shape](generator(seed, "data"), **self._given)

    def law(self, activation: Activation, depth: int) -> Ends | None:
        """Return where theory expects the spectrum, None where it has nothing to say."""
        of = getattr(random_inputs, self.shape, None)
        return of and of(ntk_distances(activation, depth), **self._given)


def measure(
    place: Place, activation: Activation, *, depths: Sequence[int], seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the columns of the table `phase` for some depths, ascending."""
    kernels = partial(along_depth, place.samples(seed), activation=activation)
    [start] = kernels(depths=[0])
    gram = spike_and_bulk(start.ntk.distances, error=start.ntk.error)
    for kernel in kernels(depths=depths):
        found = spike_and_bulk(kernel.ntk.distances, error=kernel.ntk.error)
        law = place.law(activation, kernel.depth)
        yield {
            **asdict(place),
            "activation": activation.name,
            "depth": kernel.depth,
            "seed": seed,
            **{name: value for name, value in vars(found).items() if name != "n"},
            "kappa": found.kappa,
            "kappa_error": found.kappa_error,
            "bulk_kappa": found.bulk_kappa,
            "gram_kappa": gram.kappa,
            "gram_bulk_kappa": gram.bulk_kappa,
            "law_lambda_max": law.largest if law else None,
            "law_bulk_max": law.high if law else None,
            "law_lambda_min": law.low if law else None,
        }
