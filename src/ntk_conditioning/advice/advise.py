"""What depth, activation and width do to kernels of one's own samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.advice.geometry import Geometry, geometry
from ntk_conditioning.angles.pairs import find_duplicates
from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels import infinite, tabulated
from ntk_conditioning.kernels.sampled import sampled_ntks
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import LARGEST_EXPONENT
from ntk_conditioning.spectra.spike_and_bulk import spike_and_bulk
from ntk_conditioning.theory.depth import Phase, phase
from ntk_conditioning.theory.finite_width import spread
from ntk_conditioning.theory.phase import DataPlace
from ntk_conditioning.threads import Team
from ntk_conditioning.training.repairs import Repaired, prepared, repairs

Array = NDArray[np.float64]

#: Samples of a kernel, and of the kernels of finite networks, at most.
BLOCK, SMALL_BLOCK = 512, 64
#: Widths of random networks and how many there are of each: the law of their shift needs two.
WIDTHS, NETWORKS = (128, 512), 8
#: Deeper networks are not drawn, and larger widths not named.
DEEPEST, WIDEST = 32, 1_000_000
#: Infinite width is trusted where finite networks exceed its kappa by no more than this factor.
TRUSTED = 1.25
#: Ways to prepare samples, all of which end with norms of 1.
PREPARATIONS = ("unit_norm", "centred_unit_norm", "standardized_unit_norm")
#: What a preparation has to save of the steps or of kappa, as a factor, to be worth its while.
WORTH = 1.3


@dataclass(frozen=True)
class Prediction:
    """Kappa of a kernel of infinite width, of samples of norm 1 after a ``preparation``.

    ``kappa`` is measured on a block, None where it is not resolved, and ``law`` is what the laws of
    large random matrices have there, from the samples' mean, covariance and closest pair.
    ``kappa_of_all`` is of all different samples: kappa times how the law grows with their number.
    """

    preparation: str
    activation: str
    phase: Phase
    depth: int
    kappa: float | None
    kappa_error: float | None
    law: float
    kappa_of_all: float | None


@dataclass(frozen=True)
class FiniteWidth:
    """Random networks of one activation, depth and width beside infinite width, on a small block.

    ``excess`` is the geometric mean of their kappas over that of infinite width. ``trusted`` is the
    width from which on it is within a factor of `TRUSTED`, None where none was found.
    """

    activation: str
    depth: int
    width: int
    kappa: float
    low: float
    high: float
    excess: float
    trusted: int | None


@dataclass(frozen=True)
class Advice:
    """All that is measured for the advice on a dataset of the ``name``.

    ``block`` and ``small_block`` are the samples of kernels, at infinite and at finite width;
    ``classes`` counts the labels, 0 where there are none or all are one. ``repairs`` are of samples
    as they are, by a network with one hidden layer. ``preparation`` is the best one of
    `PREPARATIONS`, and ``gram`` kappa of the Gram matrix after it, None where it is singular.
    """

    name: str
    geometry: Geometry
    block: int
    small_block: int
    classes: int
    gram: float | None
    preparation: str
    predictions: Sequence[Prediction]
    repairs: Sequence[Repaired]
    networks: Sequence[FiniteWidth]


def advise(
    name: str,
    x: Array,
    labels: NDArray[Any] | None = None,
    *,
    activations: Sequence[Activation],
    depths: Sequence[int],
    seed: int = 1,
    threads: int = 1,
) -> Advice:
    """Return the advice on samples ``x`` (n, d) with ``labels`` (n,) or none.

    Equal samples count once, and those without direction not at all. Of the preparations that end
    with norms of 1 the best is chosen. Predictions are for samples prepared like that and, of the
    first of ``activations``, for samples divided by their norm. That one and the two best ones are
    drawn at finite width. With ``threads`` activations share the work; linear algebra should then
    have one of its own.

    Raises `UserError` if fewer than four different samples are left, they have one direction, or
    squares of values leave float64's range.
    """
    sizes = np.abs(x).max(axis=1)
    exponents = np.abs(np.frexp(sizes)[1])
    if exponents.max() > LARGEST_EXPONENT:
        raise UserError(
            f"{name}: values of size {sizes[exponents.argmax()]:.0e} leave float64's range when "
            "they are squared; scale the samples"
        )
    found = geometry(x)
    if found.distinct < 4:
        raise UserError(f"{name}: {found.distinct} different samples; advice needs four or more")
    if x.shape[1] < 2:
        raise UserError(
            f"{name}: one feature; samples of norm 1 would be 1 or -1, give two or more"
        )
    if found.rank < 2:
        raise UserError(f"{name}: all samples are parallel; of norm 1 they would be equal")
    rows = np.flatnonzero(x.any(axis=1))
    rows = rows[find_duplicates(x[rows]).first]
    distinct, block = x[rows], min(BLOCK, len(rows))
    chosen = DataPlace(name, distinct, block).rows(seed)
    targets = None if labels is None else _codes(labels[rows][chosen])
    if targets is not None and targets.shape[1] == 1:  # nothing is to be learned
        targets = None
    first = activations[0]
    repaired = list(repairs(distinct[chosen], targets, activation=first, depth=1, directions=(1,)))
    preparation = _best_preparation(repaired)
    predictions: list[Prediction] = []
    with Team(threads) as team:
        for kind in dict.fromkeys(["unit_norm", preparation]):
            units = prepared(distinct, kind)
            units = units[units.any(axis=1)]
            place = DataPlace(name, units, min(block, len(units)))
            of = activations if kind == preparation else activations[:1]
            predict = partial(_predictions, kind, place, _closest(units), depths, seed)
            predictions += chain.from_iterable(team.map(predict, of))
        samples = place.draw(seed)
        small = samples.z[:: max(1, place.n // SMALL_BLOCK)][:SMALL_BLOCK]
        kinds = product(_to_draw(activations, predictions), [n for n in depths if n <= DEEPEST])
        networks = team.map(partial(_finite, small, seed), list(kinds))
    return Advice(
        name=name,
        geometry=found,
        block=place.n,
        small_block=len(small),
        classes=0 if targets is None else targets.shape[1],
        gram=spike_and_bulk(samples.distances, error=samples.error).kappa,
        preparation=preparation,
        predictions=predictions,
        repairs=repaired,
        networks=list(chain.from_iterable(networks)),
    )


def _best_preparation(repaired: Sequence[Repaired]) -> str:
    """Return the preparation with the fewest steps, or without labels with the lowest kappa.

    One that changes samples must gain something for it.
    """
    cost = {
        each.repair: (each.steps_hundredth or each.kappa or math.inf)
        for each in repaired
        if each.repair in PREPARATIONS
    }
    best = min(cost, key=lambda repair: cost[repair])
    return best if cost[best] * WORTH < cost["unit_norm"] else "unit_norm"


def _predictions(
    preparation: str,
    place: DataPlace,
    closest: float,
    depths: Sequence[int],
    seed: int,
    sigma: Activation,
) -> list[Prediction]:
    """Return the predictions for an activation; ``closest`` is of all samples of the place."""
    drawn, everything = place.draw(seed), replace(place, n=len(place.x))
    w, found = drawn.distances, []
    for depth, function in tabulated.tables(sigma, depths).items():
        measured = spike_and_bulk(function(w), error=function.error(w, drawn.error))
        law, law_of_all = place.law(function), everything.law(function)
        pair = function(np.array([w.min(), closest]))
        here = _ratio(law.largest, min(law.low, pair[0]))
        of_all = _ratio(law_of_all.largest, min(law_of_all.low, pair[1]))
        known = measured.kappa is not None and max(here, of_all) < math.inf
        found.append(
            Prediction(
                preparation=preparation,
                activation=sigma.name,
                phase=phase(sigma),
                depth=depth,
                kappa=measured.kappa,
                kappa_error=measured.kappa_error,
                law=here,
                kappa_of_all=(measured.kappa or 0) * of_all / here if known else None,
            )
        )
    return found


def _ratio(high: float, low: float) -> float:
    return float(high / low) if low > 0 else math.inf


def _closest(units: Array) -> float:
    """Return the smallest 1 - cosine of two of the samples (n, d), of norm 1."""
    pair = infinite.min_angle(units, depth=0, activation="linear")
    return 2 * math.sin(pair.angle / 2) ** 2


def _codes(labels: NDArray[Any]) -> Array:
    """Return unit vectors (n, c) for labels of c kinds."""
    kinds, numbers = np.unique(labels, return_inverse=True)
    return np.eye(len(kinds))[numbers]


def _to_draw(
    activations: Sequence[Activation], predictions: Sequence[Prediction]
) -> list[Activation]:
    """Return the first activation and the two with the lowest kappa at any depth."""
    last = predictions[-1].preparation
    told = [each for each in predictions if each.preparation == last and each.kappa is not None]
    least: dict[str, float] = {}
    for each in told:
        least[each.activation] = min(each.kappa or 0, least.get(each.activation, math.inf))
    best = sorted(least, key=lambda name: least[name])[:2]
    return [activations[0], *(s for s in activations[1:] if s.name in best)]


def _finite(samples: Array, seed: int, kind: tuple[Activation, int]) -> list[FiniteWidth]:
    """Return random networks of an activation and depth, of both widths."""
    sigma, depth = kind
    w = np.maximum(1 - (samples @ samples.T)[np.triu_indices(len(samples), 1)], 0)
    function = tabulated.tables(sigma, [depth])[depth]
    limit = spike_and_bulk(function(w), error=function.error(w, 1e-15)).kappa
    if limit is None:
        return []
    found = []
    for width in WIDTHS:
        size: Any = {"depth": depth, "width": width, "activation": sigma, "networks": NETWORKS}
        logs = spread(sampled_ntks(samples, **size, generator=generator(seed, "init", depth)))
        if logs.mean is not None and logs.resolved == NETWORKS:
            found.append((width, logs, math.exp(logs.mean) / limit))
    trusted = _trusted([(width, excess) for width, _, excess in found])
    networks = []
    for width, logs, excess in found:
        kappa, low, high = (math.exp(value or 0.0) for value in (logs.mean, logs.low, logs.high))
        networks.append(FiniteWidth(sigma.name, depth, width, kappa, low, high, excess, trusted))
    return networks


def _trusted(excesses: Sequence[tuple[int, float]]) -> int | None:
    """Return the width from which on the excess of kappa is trusted, in both directions.

    Where ln excess falls it does so as a power of the width; never is a width given that is below
    those that were drawn.

    >>> _trusted([(128, 1.003), (512, 1.009)]), _trusted([(128, 1.5), (512, 0.95)])
    (128, 512)
    >>> _trusted([(128, 2.0), (512, 1.5)]), _trusted([(128, 1.5), (512, 2.0)])
    (2398, None)
    """
    if len(excesses) < 2:
        return None
    limit = math.log(TRUSTED)
    (narrow, more), (wide, less) = ((width, math.log(excess)) for width, excess in excesses)
    if max(abs(more), abs(less)) <= limit:
        return narrow
    if more > less > 0:
        power = math.log(more / less) / math.log(wide / narrow)
        at = max(narrow, wide * (less / limit) ** (1 / power))
        return math.ceil(at) if at < WIDEST else None
    return wide if abs(less) <= limit else None
