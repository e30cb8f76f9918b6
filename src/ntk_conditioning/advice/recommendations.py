"""What depth, activation and width do to kernels of a user's samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ntk_conditioning.advice.geometry import Geometry, geometry
from ntk_conditioning.kernels import infinite, interpolated_kernels
from ntk_conditioning.kernels.sampled import sampled_ntks
from ntk_conditioning.networks.activations import Activation, Array
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.spikes import spike_and_bulk
from ntk_conditioning.theory.depth import phase
from ntk_conditioning.theory.finite_width import spread
from ntk_conditioning.theory.phase_diagram import DataPlace, measure
from ntk_conditioning.threads import pool
from ntk_conditioning.training.preconditioning import KERNEL, Repaired, prepared, repairs

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
#: Columns of predictions that may be missing, and columns of networks.
MISSING = ("kappa", "kappa_error", "kappa_of_all")
NETWORK_COLUMNS = ("activation", "depth", "width", "kappa", "low", "high", "excess", "trusted")


@dataclass(frozen=True)
class Advice:
    """All that is measured for the advice on a dataset of the ``name``.

    ``block`` and ``small_block`` are the samples of kernels, at infinite and at finite width;
    ``classes`` counts the labels, 0 where there are none or all are one. ``repairs`` are of samples
    as they are, by a network with one hidden layer. ``preparation`` is the best one of
    `PREPARATIONS`, and ``gram`` kappa of the Gram matrix after it, None where it is singular.

    ``predictions`` are of kernels of infinite width after it, by activation (with its ``phase``)
    and depth: ``kappa``, with ``kappa_error``, on a block, missing where it is not resolved; and
    ``kappa_of_all`` different samples, kappa times how the laws of random matrices let it grow.

    ``networks`` are random ones on a small block, by activation, depth and width: ``kappa``, a
    geometric mean, from ``low`` to ``high``, its ``excess`` over infinite width, and ``trusted``,
    the width from which on that is within a factor of `TRUSTED`, missing where none was found.
    """

    name: str
    geometry: Geometry
    block: int
    small_block: int
    classes: int
    gram: float | None
    preparation: str
    predictions: pd.DataFrame
    repairs: Sequence[Repaired]
    networks: pd.DataFrame


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

    Equal samples count once, and those without direction not at all. The first of ``activations``
    and the two best ones are drawn at finite width. With ``threads`` activations share the work;
    linear algebra should then have one. All is computed in float64. Raises as `geometry`.
    """
    x = np.asarray(x, np.float64)
    shape = geometry(name, x)
    distinct, block = x[shape.rows], min(BLOCK, len(shape.rows))
    chosen = DataPlace(name, distinct, block).rows(seed)
    kinds = np.zeros(len(x)) if labels is None else labels
    names, numbers = np.unique(kinds[shape.rows][chosen], return_inverse=True)
    targets = np.eye(len(names))[numbers] if len(names) > 1 else None  # one is not learned
    first = activations[0]
    repaired = list(repairs(distinct[chosen], targets, activation=first, depth=1, directions=(1,)))
    preparation = _best_preparation(repaired)
    units = prepared(distinct, preparation)
    units = units[units.any(axis=1)]
    place = DataPlace(name, units, min(block, len(units)))
    draw = place.draw(seed)
    small = draw.samples[:: max(1, place.n // SMALL_BLOCK)][:SMALL_BLOCK]
    angle = infinite.min_angle(units, depth=0, activation="linear").angle
    with pool(threads) as workers:
        predict = partial(_predictions, place, 2 * math.sin(angle / 2) ** 2, depths, seed)
        rows = chain.from_iterable(workers.map(predict, activations))
        predictions = pd.DataFrame(rows).astype(dict.fromkeys(MISSING, float))
        # the first activation and the two with the lowest kappa at any depth are drawn
        lowest = predictions.groupby("activation").kappa.min()
        best = {first.name, *lowest.nsmallest(2).index}
        drawn = [sigma for sigma in activations if sigma.name in best]
        cases = product(drawn, [n for n in depths if n <= DEEPEST])
        networks = list(workers.map(partial(_finite, small, seed), cases))
    return Advice(
        name=name,
        geometry=shape,
        block=place.n,
        small_block=len(small),
        classes=0 if targets is None else len(names),
        gram=spike_and_bulk(draw.distances, error=draw.error).kappa,
        preparation=preparation,
        predictions=predictions,
        repairs=repaired,
        networks=pd.DataFrame(chain.from_iterable(networks), columns=NETWORK_COLUMNS),
    )


def _best_preparation(repaired: Sequence[Repaired]) -> str:
    """Return the preparation with the lowest cost, if it gains something over unit norms."""
    costs = {repair.repair: cost(repair) for repair in repaired if repair.place != KERNEL}
    best = min(PREPARATIONS, key=lambda name: costs.get(name, math.inf))
    return best if costs[best] * WORTH < costs["unit_norm"] else "unit_norm"


def cost(repaired: Repaired) -> float:
    """Return the steps of a training after a repair, or kappa; infinite if neither is known."""
    return repaired.steps_hundredth or repaired.kappa or math.inf


def _predictions(
    place: DataPlace, closest: float, depths: Sequence[int], seed: int, sigma: Activation
) -> list[dict[str, Any]]:
    """Return the predictions for an activation; ``closest`` is of all samples of the place."""
    functions, rows = interpolated_kernels.tables(sigma, depths), []
    everything = replace(place, n=len(place.x))
    for measured in measure(place, sigma, functions, seed=seed):
        function = functions[measured["depth"]]
        law = everything.law(function)
        low = min(law.low, function(np.array([closest])).item())
        row = {name: measured[name] for name in ("activation", "depth", "kappa", "kappa_error")}
        row |= {"kappa_of_all": None, "phase": phase(sigma)}
        if row["kappa"] and measured["law_kappa"] and low > 0:
            row["kappa_of_all"] = row["kappa"] * (law.largest / low) / measured["law_kappa"]
        rows.append(row)
    return rows


def _finite(samples: Array, seed: int, kind: tuple[Activation, int]) -> list[tuple[Any, ...]]:
    """Return `NETWORK_COLUMNS` of an activation and depth, for both widths."""
    sigma, depth = kind
    w = np.maximum(1 - (samples @ samples.T)[np.triu_indices(len(samples), 1)], 0)
    function = interpolated_kernels.tables(sigma, [depth])[depth]
    limit = spike_and_bulk(function(w), error=function.error(w, 1e-15)).kappa
    if limit is None:
        return []
    size: Any = {"depth": depth, "activation": sigma, "networks": NETWORKS}
    rows = []
    for width in WIDTHS:
        rng = generator(seed, "init", depth)
        logs = spread(sampled_ntks(samples, **size, width=width, generator=rng))
        if logs["resolved"] == NETWORKS:
            kappa, low, high = (math.exp(logs[name]) for name in ("mean", "low", "high"))
            rows.append((sigma.name, depth, width, kappa, low, high, kappa / limit))
    trusted = _trusted(*(excess for *_, excess in rows)) if len(rows) == len(WIDTHS) else None
    return [(*row, trusted) for row in rows]


def _trusted(narrow: float, wide: float) -> int | None:
    """Return the width from which on the excess is trusted, if known, by those of both `WIDTHS`.

    ln excess is taken to fall as a power of the width. No width is below those that are drawn.

    >>> _trusted(1.003, 1.009), _trusted(1.5, 0.95), _trusted(2.0, 1.5), _trusted(1.5, 2.0)
    (128, 512, 2398, None)
    >>> _trusted(1.5001, 1.5)
    """
    least, most = WIDTHS
    more, less, limit = math.log(narrow), math.log(wide), math.log(TRUSTED)
    if max(abs(more), abs(less)) <= limit:
        return least
    if more > less > 0:
        power = math.log(more / less) / math.log(most / least)
        logarithm = math.log(most) + math.log(less / limit) / power
        if logarithm >= math.log(WIDEST):
            return None
        return max(least, math.ceil(math.exp(logarithm)))
    return most if abs(less) <= limit else None
