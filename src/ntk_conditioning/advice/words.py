"""Advice in sentences: what the numbers of `advise` mean for a user, and what to do first."""

import math
from collections.abc import Iterator

import pandas as pd

from ntk_conditioning.advice.recommendations import TRUSTED, WIDTHS, WORTH, Advice, cost
from ntk_conditioning.plotting.looks import label
from ntk_conditioning.training.preconditioning import KERNEL, Repaired

#: Samples so close, in degrees, may be what makes a kernel singular in float64.
PARALLEL = 1e-6
#: Norms differ if the largest is so many times the smallest.
ALIKE = 1.1
#: What to do for a preparation, and samples after it.
WAYS = {
    "unit_norm": ("Divide each sample by its norm", "divided by their norm"),
    "centred_unit_norm": (
        "Subtract the mean of all samples, then divide each by its norm",
        "less their mean and divided by their norm",
    ),
    "standardized_unit_norm": (
        "Bring each feature to mean 0 and variance 1, then divide each sample by its norm",
        "with standardised features and divided by their norm",
    ),
}


def number(value: float | None) -> str:
    """Return a number as one reads it, to three digits.

    >>> number(28211.7), number(999.7), number(5.9e12), number(math.inf), number(None)
    ('28,200', '1,000', '5.9e+12', 'infinite', 'not resolved')
    """
    if value is None or not math.isfinite(value):
        return "infinite" if value == math.inf else "not resolved"
    rounded = float(f"{value:.3g}")
    if abs(rounded) >= 1e7:
        return f"{value:.1e}"
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{value:.3g}"


def count(number: int, what: str) -> str:
    """Return a number of things.

    >>> count(1, "pair"), count(1797, "sample")
    ('1 pair', '1,797 samples')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def in_words(advice: Advice) -> dict[str, list[str]]:
    """Return the advice, sentences by heading: samples, what to do first, depth, and width."""
    return {
        "Your samples": list(_samples(advice)),
        "What to do first": list(_first(advice)),
        "What depth does": list(_depth(advice)),
        "How wide, and how deep": list(_width(advice)),
    }


def _samples(advice: Advice) -> Iterator[str]:
    data = advice.geometry
    classes = f", of {advice.classes} classes" if advice.classes else ""
    size = f"{count(data.n, 'sample')} of {count(data.d, 'feature')}"
    yield f"{size}{classes}; their rank is {data.rank}."
    if constant := data.constant_columns:
        verb = "is" if constant == 1 else "are"
        yield f"{count(constant, 'feature')} {verb} the same in all samples."
    if data.zeros:
        zeros = count(data.zeros, "sample")
        yield f"{zeros} are zero and have no direction; they are left out here."
    if data.duplicates:
        yield f"{data.equal.capitalize()}; every kernel of all samples is singular."
    else:
        yield "No two samples are equal."
    yield (
        f"The closest two that differ, rows {data.i} and {data.j} counted from 0, are "
        f"{data.min_angle:.3g}° apart."
    )
    low, middle, high = map(number, (data.norm_min, data.norm_median, data.norm_max))
    yield f"Norms go from {low} to {high}, with the median {middle}."
    if data.mean_cosine > 0.5:
        lie = "samples are close to their mean direction"
    elif data.mean_cosine > 0.1:
        lie = "samples have a mean direction in common"
    else:
        lie = "samples lie about the origin, with no mean direction"
    yield (
        f"The mean cosine of two samples is {data.mean_cosine:.2f}: {lie}. By the spread of their "
        f"cosines they have an effective dimension of {number(data.effective_dimension)}."
    )


def _first(advice: Advice) -> Iterator[str]:
    data = advice.geometry
    if data.zeros:
        yield f"Remove the {count(data.zeros, 'sample')} that are zero."
    if data.duplicates:
        yield "Remove all but one of equal samples: nothing else makes the kernel regular."
    by_name = {repair.repair: repair for repair in advice.repairs if repair.place != KERNEL}
    plain, norm = by_name["none"], by_name["unit_norm"]
    if norm.kappa is None and not data.duplicates and (data.min_angle or 0) < PARALLEL:
        yield (
            f"Remove row {data.i} or {data.j}, and one of any others as close: float64 "
            "cannot tell kernels with both from singular ones."
        )
    way, advised = WAYS[advice.preparation][0], by_name[advice.preparation]
    if advised == norm and data.norm_max <= ALIKE * data.norm_min:
        yield "Leave samples as they are: they have equal norms already."
    elif _gains(plain, advised):
        yield f"{way}: {_change(plain, advised)}."
    else:
        yield f"{way}, which normalised activations assume: {_change(plain, advised)}."
    top = next(r for r in advice.repairs if (r.place, r.directions) == (KERNEL, 1))
    if _gains(plain, top):
        yield (
            "Where samples must stay as they are, an optimiser that preconditions by the first "
            f"eigenvector of the kernel helps: {_change(plain, top)}."
        )


def _gains(plain: Repaired, repaired: Repaired) -> bool:
    return cost(repaired) * WORTH <= cost(plain) and cost(repaired) < math.inf


def _change(plain: Repaired, repaired: Repaired) -> str:
    change = f"kappa goes from {number(plain.kappa)} to {number(repaired.kappa)}"
    if plain.kappa is None and repaired.kappa is None:
        change = "kappa is resolved neither before nor after it"
    before, after = plain.steps_hundredth, repaired.steps_hundredth
    if before and after:
        return (
            f"{change}, and the steps in which gradient descent learns the labels from "
            f"{number(before)} to {number(after)} "
            "(ReLU, 1 hidden layer, square loss to one hundredth)"
        )
    return f"{change} (ReLU, 1 hidden layer)"


def _depth(advice: Advice) -> Iterator[str]:
    gram, samples = advice.gram, count(advice.block, "sample")
    without = "the Gram matrix is singular" if gram is None else f"kappa is {number(gram)}"
    yield (
        f"Kappas are of kernels of {samples}, {WAYS[advice.preparation][1]}, at infinite width. "
        f"Without hidden layers {without}."
    )
    advised = advice.predictions
    by_name = dict(iter(advised.groupby("activation", sort=False)))
    first = next(iter(by_name))
    yield f"{_along(first, by_name[first])}."
    few_layers = advised.kappa.where(advised.depth <= 8)
    least = few_layers.groupby(advised.activation, sort=False).min().fillna(math.inf)
    if (best := least.idxmin()) != first:
        lowest = _along(best, by_name[best])
        yield f"Of {len(by_name)} activations the lowest up to 8 layers: {lowest}."
    if gram is not None and least.min() > gram:
        yield "None improves on the samples as they are: for kappa no hidden layer is needed."
    if len(ordered := advised.activation[advised.phase == "ordered"].unique()):
        names = " and ".join(label("activation", name) for name in ordered)
        yield (
            f"Do without {names}, or take the normalised versions: layers draw all samples "
            "together, and kappa grows with every one of them."
        )
    shallow, distinct = by_name[first].iloc[0], len(advice.geometry.rows)
    if not math.isnan(shallow.kappa_of_all) and distinct > advice.block:
        yield (
            f"Of all {count(distinct, 'sample')} at once, {label('activation', first)} with "
            f"{count(shallow.depth, 'layer')} has a kappa of about {number(shallow.kappa_of_all)}."
        )


def _along(name: str, predictions: pd.DataFrame) -> str:
    if predictions.kappa.isna().all():
        return f"kappa of {label('activation', name)} is not resolved at any depth"
    named = predictions[predictions.depth.isin((1, 2, 8, 64))]
    named = predictions if named.empty else named
    values = zip(named.kappa, named.depth, strict=True)
    words = ", ".join(f"{number(k)} with {count(n, 'layer')}" for k, n in values)
    return f"{label('activation', name)} has {words}"


def _width(advice: Advice) -> Iterator[str]:
    width, percent = max(WIDTHS), round(100 * (TRUSTED - 1))
    yield (
        f"A few random networks of width {width} were drawn on "
        f"{count(advice.small_block, 'sample')}. The narrower and deeper a network, the larger its "
        "kappa usually is beside that of infinite width."
    )
    if advice.networks.empty:
        yield "Kappa of the networks that were drawn is not resolved."
    wide = advice.networks[advice.networks.width == width]
    for name, drawn in wide.groupby("activation", sort=False):
        best, called = drawn.loc[drawn.kappa.idxmin()], label("activation", name)
        yield (
            f"{called}: the lowest kappa at width {width}, {number(best.kappa)}, is with "
            f"{count(best.depth, 'layer')}."
        )
        known = drawn[drawn.trusted.notna() & drawn.depth.isin((1, 4, 16))]
        for trusted, depth in zip(known.trusted, known.depth, strict=True):
            yield (
                f"{called}, {count(depth, 'layer')}: kappa is within {percent} % of infinite width "
                f"from a width of about {int(float(f'{trusted:.1g}')):,} on."
            )
