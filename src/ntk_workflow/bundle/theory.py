"""Numbers of tables that theory gives of an activation and a place alone: laws of random samples.

They are evaluated again, apart from other relations, because that takes time.
"""

import math
from functools import cache
from pathlib import Path

import numpy as np

from ntk_conditioning import tables
from ntk_conditioning.kernels.tabulated import Table
from ntk_conditioning.kernels.tabulated import tables as tabulated
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.depth import far_samples
from ntk_conditioning.theory.phase import DATA, RandomPlace
from ntk_conditioning.theory.random_inputs import Ends
from ntk_workflow.bundle import BundleError, in_words
from ntk_workflow.bundle.rows import Follows, Row, same
from ntk_workflow.plan import Plan

#: Beside the largest number that theory gives: smaller ones are 0 where they are this near.
ROUNDING = 1e-12


def require_theory(payload: Path, plan: Plan) -> None:
    """Raise `BundleError` if a number of the table `phase` is not the one that theory gives."""
    if "phase" not in plan.tables:
        return
    path = plan.path("tables/phase.parquet")
    rows = tables.read(payload / path, "phase").to_pylist()
    theory = _Theory({row["depth"] for row in rows})
    for row in rows:
        # the user's own are not imported
        if activations.base_name(row["activation"]) in activations.names():
            found = [*theory.of(row)]
            numbers = (abs(value) for _, value, _ in found if math.isfinite(value))
            scale = max(numbers, default=0.0)
            for column, value, why in found:
                near = abs(row[column] - value) <= ROUNDING * scale
                if not near and not same(row[column], value):
                    place = in_words({key: row[key] or None for key in tables.get("phase").keys})
                    line = f"{path}: {column} is {row[column]!r}, and {why} give {value!r}"
                    raise BundleError(f"{line}, at {place}")


class _Theory:
    """What theory gives of rows, each evaluated once: seeds have it in common."""

    def __init__(self, depths: set[int]) -> None:
        self._kernels = cache(lambda name: tabulated(activations.get(name), depths))
        self._law, self._far = cache(self._law_of), cache(self._far_of)

    def of(self, row: Row) -> Follows:
        """Yield the columns of a row of the table `phase` that theory gives."""
        kernel, n, d = (row["activation"], row["depth"]), row["n"], row["d"]
        pair = self._function(*kernel)(np.array([row["closest"]])).item()
        yield "pair_bound", pair, "its kernel and closest"
        ends, why = self._far(*kernel, n, d), "its kernel, n and d"
        yield "far_lambda_max", ends.largest, why
        yield "far_lambda_min", ends.low, why
        if row["shape"] != DATA:  # whose variances are not in the bundle
            ends, why = self._law(*kernel, row["shape"], row["parameter"], n, d), "the laws"
            yield "law_lambda_max", ends.largest, why
            yield "law_bulk_max", ends.high, why
            yield "law_lambda_min", ends.low, why

    def _function(self, activation: str, depth: int) -> Table:
        return self._kernels(activation)[depth]

    def _law_of(
        self, activation: str, depth: int, shape: str, parameter: float, n: int, d: int
    ) -> Ends:
        place = RandomPlace(shape=shape, parameter=parameter, n=n, d=d)
        return place.law(self._function(activation, depth))

    def _far_of(self, activation: str, depth: int, n: int, d: int) -> Ends:
        return far_samples(self._function(activation, depth), n=n, d=d)
