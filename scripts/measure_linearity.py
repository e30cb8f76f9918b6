"""Measure how far networks are from linear in their weights: Hessian, quadratic term, NTK's change.

All widths of one architecture (liu2022transition, Theorems 1 and 4, Appendices D and E).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ntk_conditioning.seeds import generator
from ntk_conditioning.tables.linearity import LINEARITY
from ntk_conditioning.theory import liu2022transition as theory
from ntk_conditioning.transition.descent import descend
from ntk_conditioning.transition.feedforward import Assembly
from ntk_conditioning.transition.gradients import gradient_products
from ntk_conditioning.transition.taylor import Expansion, hessian_norm, largest_terms
from ntk_workflow.cli import positive_integer, positive_number, run_main
from ntk_workflow.rows.widths import Network, assembly_parser, each_width


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = assembly_parser(__doc__)
    add = parser.add_argument
    add("--radii", type=positive_number, nargs="+", required=True, help="radii of the balls")
    add("--expansions", type=positive_integer, default=1, help="samples to expand the network at")
    add("--directions", type=positive_integer, default=10, help="random directions")
    args = parser.parse_args(argv)
    for name, networks, rows in each_width(args, LINEARITY, program=__file__):
        for network in networks:
            rows += [name | row for row in linearity(network, args)]
    return 0


def linearity(network: Network, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rows of a network, one for each radius."""
    assembly, samples = network.assembly, network.samples
    trained = descend(assembly, samples.x, samples.y, steps=args.steps, rate=args.rate)
    chosen = samples.x[:: max(1, len(samples.x) // args.expansions)][: args.expansions]
    expanded = [at_sample(assembly, x, network.seed, args) for x in chosen]
    common = {
        "seed": network.seed,
        "samples": len(chosen),
        "d": assembly.fan_ins[0],
        "parameters": assembly.parameters,
        "largest_weight": largest_weight(assembly),
        "steps": args.steps,
        "loss_before": trained.loss_before,
        "loss_after": trained.loss_after,
        "kernel_change": trained.kernel_change,
        "distance": trained.distance,
    }
    return [
        common
        | {"radius": radius}
        | {key: largest(at[radius][key] for at in expanded) for key in row}
        for radius, row in expanded[0].items()
    ]


def largest(values: Iterable[float | None]) -> float | None:
    """Return the largest value, or None where a value does not exist."""
    found = list(values)
    return None if None in found else max(found)


def largest_weight(assembly: Assembly) -> float:
    """Return the largest absolute weight of the last layer."""
    return float(assembly.weights[-1].abs().max())


def at_sample(
    assembly: Assembly, x: Tensor, seed: int, args: argparse.Namespace
) -> dict[float, dict[str, float | None]]:
    """Return the columns of every radius at one sample ``x`` (d,)."""
    whole, fixed = (Expansion(assembly, x, last_fixed=last) for last in (False, True))
    norm, norm_fixed = hessian_norm(whole), hessian_norm(fixed)
    rows = {}
    for radius in args.radii:
        # Any stream that is not the initialisation's.
        search = {"directions": args.directions, "generator": generator(seed, "batch")}
        terms = largest_terms(whole, radius, eigenvector=norm.eigenvector, **search)
        below = largest_terms(fixed, radius, eigenvector=norm_fixed.eigenvector, **search)
        rows[radius] = {
            "hessian_norm": norm.norm,
            "hessian_residual": norm.residual,
            "hessian_norm_fixed": norm_fixed.norm,
            "quadratic_term": terms.largest,
            "quadratic_random": terms.random,
            "quadratic_gradient": terms.gradient,
            "quadratic_eigenvector": terms.eigenvector,
            "quadratic_ascent": terms.ascent,
            "quadratic_term_fixed": below.largest,
            "bound": two_layer_bound(assembly, x, radius),
            "bound_fixed": last_layer_bound(assembly, x, radius),
        }
    return rows


def two_layer_bound(assembly: Assembly, x: Tensor, radius: float) -> float | None:
    """Return Theorem 1's bound, whose sub-models are the neurons of a two-layer network."""
    if len(assembly.hidden) != 1 or assembly.dense or assembly.activation.kinks:
        return None
    norm = float(torch.linalg.vector_norm(x)) * assembly.scale(1)
    weight = largest_weight(assembly) + radius
    smoothness = theory.two_layer_smoothness(assembly.activation, norm, weight)
    return theory.assembly_bound(smoothness, radius, math.sqrt(assembly.hidden[0]))


def last_layer_bound(assembly: Assembly, x: Tensor, radius: float) -> float | None:
    """Return Theorem 4's bound, with the smoothness that its proof takes: of linear neurons."""
    if assembly.dense or assembly.activation.kinks:
        return None
    *_, products = gradient_products(assembly, x)
    _, curvature = theory.slope_bounds(assembly.activation)
    smoothness = curvature * float(products.diagonal().max())
    return theory.layer_bound(smoothness, radius, assembly.hidden[-1], largest_weight(assembly))


if __name__ == "__main__":
    sys.exit(main())
