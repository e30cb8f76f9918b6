"""Columns of a table that are another table's: the losses of predicted trainings, say."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.tables import TABLES
from ntk_conditioning.theory.bounds_vs_exact import distance_bound
from ntk_conditioning.training.curves import POINT_KEYS
from ntk_workflow.bundle import BundleError, in_words
from ntk_workflow.bundle.rows import Row, same
from ntk_workflow.plan import Plan

#: Relative; of angles between samples, which kernels of finite width have in another way.
ANGLES_TOLERANCE = 1e-6

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Join:
    """Columns of ``table`` that ``other`` has too, in the row with the same ``keys``.

    Of ``columns`` the names there are given where they are others. ``of`` says which rows have a
    row there; without ``required`` it may be missing.
    """

    table: str
    other: str
    keys: tuple[str, ...]
    columns: Mapping[str, str]
    of: Callable[[Row], bool] = lambda _: True
    required: bool = True
    tolerance: float = 0.0


def require_joins(payload: Path, plan: Plan) -> None:
    """Raise `BundleError` if a number is not the one that another table has of the same."""
    known: dict[str, list[Row]] = {}

    def rows(name: str) -> list[Row]:
        if name not in known:
            path = payload / plan.path("tables", f"{name}.parquet")
            read = path.is_file() and tables.read(path, TABLES[name.split("/")[0]])
            known[name] = read.to_pylist() if read else []
        return known[name]

    for join in _joins(plan):
        there: dict[Key, Row] = {}
        for row in rows(join.other):
            there.setdefault(tuple(row[key] for key in join.keys), row)
        for row in filter(join.of, rows(join.table) if there else ()):
            key = tuple(row[name] for name in join.keys)
            _require(join, plan, row, there.get(key), dict(zip(join.keys, key, strict=True)))
    _require_curves(plan, rows)
    _require_distances(plan, rows)


def _require(join: Join, plan: Plan, row: Row, match: Row | None, key: Row) -> None:
    here, there = (plan.path("tables", f"{name}.parquet") for name in (join.table, join.other))
    place = in_words(key)
    if match is None:
        if join.required:
            raise BundleError(f"{here}: has {place}, and {there} has no such row")
        return
    for column, name in join.columns.items():
        a, b = row[column], match[name]
        near = join.tolerance and None not in (a, b) and abs(a - b) <= join.tolerance * abs(b)
        if not near and not same(a, b):
            raise BundleError(
                f"{here}: {column} is {a!r}, and {there} has {name} {b!r}, at {place}"
            )


def _joins(plan: Plan) -> Iterator[Join]:
    geometry = {name: name for name in ("min_angle", "i", "j")}
    sizes = {name: name for name in ("n", "duplicates")}
    whole = all(plan.setting("samples", each) == "all" for each in plan.config["datasets"])
    told = plan.config["exclude_duplicates"]
    if whole:  # the same samples for every seed

        def gram(row: Row) -> bool:
            return row["depth"] == 0 and (told or not row["duplicates"])

        yield Join("angles", "datasets", ("dataset",), sizes)
        exact = Join("angles", "datasets", ("dataset",), geometry)
        yield Join(**{**vars(exact), "of": lambda r: gram(r) and r["kernel"] == "infinite_ntk"})
        angle, near = {"min_angle": "min_angle"}, ANGLES_TOLERANCE
        yield Join("angles", "datasets", ("dataset",), angle, of=gram, tolerance=near)
    constants = {"fixed_point": "fixed_point", "dual_slope": "slope_at_one"}
    yield Join("bounds", "activations", ("activation",), constants, required=False)
    constants = {"mu_tilde": "non_affinity"}
    yield Join("bounds", "activations", ("activation",), constants, _is_large, required=False)
    for name, values in plan.experiments.items():
        training, network = f"training/{name}", (*POINT_KEYS, "seed")
        yield Join(training, "datasets", ("dataset",), {"classes": "classes"}, required=False)
        kernels = Join(f"training_kernels/{name}", training, network, {"n_train": "n"})
        yield kernels
        if values["kernels_along"]:
            shared = {each: each for each in ("steps", "width", "loss", "batch_size", "train_loss")}
            at = (*network, "relative_rate", "rate_unit", "learning_rate", "epoch")
            along = f"kernels_along_training/{name}"
            yield Join(along, training, at, {**shared, "n_train": "n"})
        if values["predict"] and values["outputs"] == "scalar":
            spectrum = {each: each for each in ("lambda_max", "kappa")}
            of = (*network, "n")  # of one output, and of all samples
            predicted, kernel = f"predictions/{name}", f"training_kernels/{name}"
            yield Join(predicted, kernel, of, spectrum, _is_whole, required=False)


def _is_large(row: Row) -> bool:
    return bool(row["mu_tilde"] > ANGLES_TOLERANCE)


def _is_whole(row: Row) -> bool:
    """Return whether a prediction's kernel is of all samples."""
    return bool(row["kernel_n"] == row["n"])


def _require_curves(plan: Plan, rows: Callable[[str], list[Row]]) -> None:
    """Compare the losses of predicted trainings with those of the trainings."""
    for name, values in plan.experiments.items():
        if not values["predict"]:
            continue
        keys = (*POINT_KEYS, "seed", "relative_rate", "rate_unit", "learning_rate")
        losses: dict[Key, dict[int, Any]] = {}
        for row in rows(f"training/{name}"):
            curve = losses.setdefault(tuple(row[key] for key in keys), {})
            curve[row["epoch"]] = row["train_loss"]
        for row in rows(f"predictions/{name}"):
            key = tuple(row[name] for name in keys)
            curve = losses.get(key, {})
            there = {"epochs": [float(epoch) for epoch in curve], "train_loss": [*curve.values()]}
            columns = {column: column for column in there}
            join = Join(f"predictions/{name}", f"training/{name}", keys, columns)
            _require(join, plan, row, there, dict(zip(keys, key, strict=True)))


def _require_distances(plan: Plan, rows: Callable[[str], list[Row]]) -> None:
    """Compare distances from an activation's fixed point with what its constants give."""
    known = {row["activation"]: row for row in rows("activations")}
    columns = {name: name for name in ("distance_error", "distance_bound")}
    join = Join("bounds", "activations", ("activation",), columns)
    for row in rows("bounds"):
        sigma = known.get(row["activation"])
        if sigma and row["kernel"] == "nngp":
            error = row["correlation_error"] + sigma["fixed_point_error"]
            bound = distance_bound(row, sigma["slope_at_fixed_point"])
            given = {"distance_error": error, "distance_bound": bound}
            place = {key: row[key] for key in ("dataset", "activation", "kernel", "depth")}
            _require(join, plan, row, given, place)
