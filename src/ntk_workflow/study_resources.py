"""What the jobs of a run's studies need, see `resources`."""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

from ntk_conditioning.kernels import sampled
from ntk_conditioning.networks import architectures
from ntk_workflow.resources import (
    ANGLE,
    CLOSED_FORM,
    EIGENVALUES,
    ITERATIONS,
    QUADRATURE,
    STARTED,
    TORCH,
    UNIT,
    ResourceEstimate,
    has_closed_form,
)

# Operations in a layer on an entry of a kernel of infinite width where all samples have one norm.
_ONE_NORM = 4000
# Operations of drawing a unit's pre-activation, and of applying the activation and its derivative.
_NORMAL = 500
# Operations of what advice takes for any dataset: blocks through all activations, and networks.
_ADVICE = 2e11
# Operations of a table of a kernel on a pair of samples.
_SPLINE = 2000
# Operations on an entry of a matrix of cosines, which only read the memory.
_COSINE = 600
# Products with a Hessian until its norm has converged, the operations of one on a weight, with
# those of Lanczos' method, the vectors that it and a backward pass keep, and steps of ascents.
_HESSIAN_PRODUCTS, _HESSIAN_PRODUCT, _HESSIAN_VECTORS, _CLIMBS = 100, 700, 24, 60


def bounds(study: Mapping[str, Any], *, loaded: int, d: int) -> ResourceEstimate:
    """Estimate compute_bounds: for each activation n²/2 pairs through the layers."""
    n = loaded if study["samples"] == "all" else study["samples"]
    pairs = n**2 / 2 * (ANGLE + max(study["depths"]) * _ONE_NORM)
    flops = len(study["activations"]) * (pairs + 2 * len(study["depths"]) * EIGENVALUES * n**3)
    return ResourceEstimate(flops + 3.0 * n**2 * d, TORCH + 8 * (8 * n**2 + 3 * n * d))


def phase(study: Mapping[str, Any]) -> ResourceEstimate:
    """Estimate measure_phase: of each draw its cosines, and a table and 4 spectra a depth."""
    draws = len(study["seeds"]) * sum(len(numbers or ()) for numbers in study["shapes"].values())
    depths, largest = len(study["depths"]), max(study["samples"])
    sizes = [(n, n / ratio) for n in study["samples"] for ratio in study["samples_per_dimension"]]
    flops = draws * sum(2 * n**2 * d + _placed(n, depths) for n, d in sizes)
    d = max(d for _, d in sizes)
    return ResourceEstimate(flops, TORCH + 8 * (10 * largest**2 + 3 * largest * d))


def phase_of_data(study: Mapping[str, Any], *, loaded: int, d: int) -> ResourceEstimate:
    """Estimate measure_phase_of_data: the covariance of a dataset, and draws as above."""
    n, draws = max(study["samples"]), len(study["seeds"]) * len(study["activations"])
    flops = draws * _placed(n, len(study["depths"])) + 2 * loaded * d**2 + EIGENVALUES * d**3
    return ResourceEstimate(flops, TORCH + 8 * (10 * n**2 + 3 * loaded * d + 3 * d**2))


def _placed(n: int, depths: int) -> float:
    """Return the operations for kernels of one draw: a table's spline and 4 spectra a depth."""
    return float(depths * n**2 / 2 * _SPLINE + 4 * (depths + 1) * EIGENVALUES * n**3)


def finite_width(study: Mapping[str, Any], *, loaded: int, d: int) -> ResourceEstimate:
    """Estimate measure_finite_width: draws and factors of m n numbers in each layer."""
    networks = study["networks"] * len(study["seeds"]) * len(study["activations"])
    pairs = [(m, depth) for m in study["widths"] for depth in study["depths"] if depth <= m]
    flops = sum(m * n * (_NORMAL + 20 * n) * depth for n in study["samples"] for m, depth in pairs)
    flops += sum(EIGENVALUES * n**3 for n in study["samples"]) * len(pairs)
    n, largest = max(study["samples"]), max(m * depth for m, depth in pairs)
    kept = max(sampled.MEMORY, 3 * 8 * n * largest)
    return ResourceEstimate(networks * flops, TORCH + 8 * loaded * d + 2 * kept)


def repairs(study: Mapping[str, Any], *, loaded: int, d: int) -> ResourceEstimate:
    """Estimate measure_repairs: kernels of samples of any norms, and their spectra."""
    n, kinds = study["samples"], 4 + len(study["directions"])
    closed = [has_closed_form(name) for name in study["activations"]]
    layer = sum(CLOSED_FORM if each else QUADRATURE for each in closed) * n**2 / 2
    draws = len(study["seeds"]) * kinds
    flops = draws * (sum(study["depths"]) * layer + n**2 * d)
    flops += 2 * draws * len(closed) * len(study["depths"]) * EIGENVALUES * n**3
    return ResourceEstimate(flops, TORCH + 8 * (loaded * d + 12 * n**2))


def advice(*, loaded: int, d: int) -> ResourceEstimate:
    """Estimate advise_dataset: all pairs of samples three times, spectra and random networks."""
    flops = 3.0 * loaded**2 * d + 2 * loaded * d**2 + 3 * EIGENVALUES * d**3 + _ADVICE
    return ResourceEstimate(flops, TORCH + 8 * (8 * loaded * d + 6 * d**2) + 10**9)


def architectures_study(
    study: Mapping[str, Any],
    *,
    image: tuple[int, int, int] | None,
    loaded: int,
    d: int,
) -> ResourceEstimate:
    """Estimate measure_architectures: the kernels of every network, finite and infinitely wide.

    At most a product of all gradients. What the user's own networks take is not known; they count
    as fully connected ones.
    """
    n, places = study["samples"], math.prod(image[:2]) if image else 1
    closed = [has_closed_form(name) for name in study["activations"]]
    layers = sum(CLOSED_FORM if each else QUADRATURE for each in closed)
    flops, needed = 0.0, 0
    for name in study["models"]:
        of = {**study, **study["overrides"].get(name, {})}
        known = name if name in architectures.MODELS else "fc"
        pairs = n**2 / 2 * {"conv": places, "conv_pool": places**2}.get(name, 1)
        if name in study["infinite_width"]:
            flops += pairs * sum(ANGLE + depth * layers for depth in of["depths"])
        for width, depth in product(of["widths"], of["depths"]):
            shape = {"d": d, "width": width, "depth": depth, "outputs": 1, "image": image}
            size = architectures.sizes(known, **shape)
            one = n * (6 * size.products + UNIT * size.units) + n**2 * size.weights
            one += STARTED * (depth + 1) + EIGENVALUES * n**3
            flops += len(closed) * len(study["seeds"]) * one
            needed = max(needed, 8 * n * (3 * size.units + size.weights) + 8 * 2 * size.weights)
    return ResourceEstimate(flops, TORCH + 8 * loaded * d + min(needed, 10**9) + 4 * 8 * n**2)


def feedforward_study(
    name: str, study: Mapping[str, Any], architecture: Mapping[str, Any], *, loaded: int, d: int
) -> ResourceEstimate:
    """Estimate measure_orthogonality or measure_linearity, for all widths of an architecture.

    On the span of n samples the input is of length n. Training takes 6 operations per weight and
    sample in a step. For orthogonality each layer takes two products of its size for every sample,
    before and after each number of steps, and two norms of the first; for linearity every expansion
    some hundreds of Hessian products, in all weights and in all but the last layer's, and trials in
    each ball.
    """
    n, dense = study["samples"], architecture.get("dense", False)
    reduced, scales = min(n, d), len(study.get("label_scales", [1]))
    lengths = study["steps"] if name == "orthogonality" else [study["steps"]]
    moments = 1 + scales * len(lengths)

    def one(m: int) -> ResourceEstimate:
        hidden = [m if width == "m" else width for width in architecture["hidden"]]
        inputs = [sum(hidden[: k + 1]) if dense else width for k, width in enumerate(hidden)]
        layers = zip(inputs, [*hidden[1:], 1], strict=True)
        weights = reduced * hidden[0] + sum((i + reduced * dense) * k for i, k in layers)
        flops = 6.0 * weights * n * max(lengths) * scales
        if name == "orthogonality":
            layers = zip(hidden[1:], inputs, strict=False)
            products = sum(2 * i**2 * k + 2 * i * k**2 for i, k in layers)
            entries = sum(width**2 for width in hidden)
            flops += moments * (n * (products + _COSINE * entries) + ITERATIONS * entries)
            needed = 8 * 6 * max(inputs) ** 2
        else:
            searched = 4 * len(study["radii"]) * (study["directions"] + _CLIMBS)
            expansion = 2 * weights * (_HESSIAN_PRODUCTS * _HESSIAN_PRODUCT + 6 * searched)
            flops += study["expansions"] * expansion
            needed = 8 * weights * _HESSIAN_VECTORS
        drawn = 8 * 2 * (d * hidden[0] + weights + d * sum(hidden) * dense)
        held = 3 * 8 * weights + drawn + 2 * 8 * loaded * d
        return ResourceEstimate(len(study["seeds"]) * flops, TORCH + needed + held)

    return ResourceEstimate.of_all(one(m) for _ in study["activations"] for m in study["widths"])
