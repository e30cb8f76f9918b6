"""Numbers of a table that follow from others: in the same row, and in rows that share them.

The size of a dataset, say, is the same wherever it is used.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ntk_conditioning import tables
from ntk_conditioning.errors import one_line
from ntk_conditioning.tables import TABLES
from ntk_conditioning.theory.bounds_vs_exact import RESOLVED
from ntk_conditioning.training.curves import POINT_KEYS
from ntk_workflow import catalogue
from ntk_workflow.bundle import BundleError, in_words
from ntk_workflow.bundle.rows import FOLLOWS, Row, same
from ntk_workflow.figures.parameters import TRAINED_TABLES
from ntk_workflow.plan import Plan


def require_relations(payload: Path, plan: Plan) -> None:
    """Raise `BundleError` if a number in a table is not the one that its row or others give."""
    experiments = [f"{t}/{name}" for t in TRAINED_TABLES for name in plan.experiments]
    sizes = {name: _declared(name, plan) for name in plan.used_datasets}
    alone = [name for name in plan.tables if name not in TRAINED_TABLES]  # others are those below
    for name in [*alone, *experiments]:
        path, kind = plan.path("tables", f"{name}.parquet"), name.split("/")[0]
        table = TABLES["conditioning" if kind == "activation_study" else kind]
        if not (payload / path).is_file():  # an experiment without predictions
            continue
        rows = tables.read(payload / path, table).to_pylist()
        for row in rows:
            try:
                found = [*FOLLOWS[kind](row)] if kind in FOLLOWS else []
            except (ValueError, ArithmeticError, LookupError, TypeError) as error:
                place, reason = _place(row, table.keys), one_line(error)
                raise BundleError(f"{path}: {place}: impossible ({reason})") from None
            for column, value, why in found:
                if not same(row[column], value):
                    line = f"{path}: {column} is {row[column]!r}, and {why} give {value!r}"
                    raise BundleError(f"{line}, at {_place(row, table.keys)}")
        if kind == "bounds":
            _require_rates(path, rows)
        if kind == "datasets":
            _require_counts(path, rows, plan)
        if kind == "spectra":
            _require_kept(path, rows, plan)
            _require_grams(path, rows)
        for keys, columns in _COMMON.get(kind, ()):
            _require_common(path, rows, keys, columns)
        if {"dataset", "d"} <= {*table.schema.names} and kind not in _OTHER_SIZES:
            known = [{**row, "table": path} for row in rows if row["dataset"]]
            _require_sizes(known, sizes)


def _require_common(
    path: str, rows: list[Row], keys: tuple[str, ...], columns: tuple[str, ...]
) -> None:
    first: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        before = first.setdefault(tuple(row[key] for key in keys), row)
        for column in columns:
            if not same(row[column], before[column]):
                values = f"both {before[column]!r} and {row[column]!r}"
                raise BundleError(f"{path}: {column} is {values} at {_place(row, keys)}")


def _place(row: Row, keys: Iterable[str]) -> str:
    return in_words({key: row[key] for key in keys})


def _require_rates(path: str, rows: list[Row]) -> None:
    """Compare rates along depth with the quantities that change."""
    shallower: dict[tuple[str, ...], Row] = {}
    for row in sorted(rows, key=lambda row: row["depth"]):
        place = tuple(row[key] for key in ("dataset", "activation", "kernel"))
        before = shallower.get(place)
        for name, quantity in (("correlation", "correlation_max"), ("excess", "excess")):
            now, start = row[quantity], before[quantity] if before else None
            resolved = now is not None and now >= RESOLVED * row[f"{name}_error"]
            rate = None
            if before and start is not None and start <= 0.5 and resolved:
                rate = math.log(now / start) / (row["depth"] - before["depth"])
            if not same(row[f"{name}_rate"], rate):
                here = f"{', '.join(place)}, depth {row['depth']}"
                line = f"{name}_rate is {row[f'{name}_rate']!r}, and {quantity} gives {rate!r}"
                raise BundleError(f"{path}: {line}, at {here}")
        shallower[place] = row


def _declared(dataset: str, plan: Plan) -> Row:
    """Return a row with the size that a dataset has by its catalogue; no file is looked into."""
    n, d = catalogue.declared_shape(plan.catalogue[dataset], plan.speech_of(dataset))
    return {"n": n, "d": d, "table": "the recorded config"}


def _require_counts(path: str, rows: list[Row], plan: Plan) -> None:
    """Compare the numbers of samples with what the recorded config and the catalogue have."""
    for row in rows:
        samples = plan.setting("samples", row["dataset"]) if row["seed"] is not None else "all"
        n = _declared(row["dataset"], plan)["n"] if samples == "all" else samples
        if n not in (None, row["n"]):
            line = f"n of {row['dataset']} is {row['n']}, and {n} in the recorded config"
            raise BundleError(f"{path}: {line}")


def _require_kept(path: str, rows: list[Row], plan: Plan) -> None:
    """Compare the blocks whose eigenvalues are kept with those that the recorded config names."""
    for row in rows:
        asked, below = (plan.setting(key, row["dataset"]) for key in _SOLVER)
        chosen = asked == "all" or (asked == "first" and row["block"] == 0)
        kept = chosen and (row["method"] == "factor" or row["n"] < below)
        if kept == (row["eigenvalues"] is None):
            has = "has no eigenvalues" if kept else "has eigenvalues"
            settings = f"eigenvalues {asked} and full_spectrum_below {below} in the recorded config"
            raise BundleError(f"{path}: {has}, against {settings}, at {_place(row, _CELL)}")


def _require_grams(path: str, rows: list[Row]) -> None:
    """Compare the kernels of depth 0, which are the Gram matrix of a block, with each other."""
    first: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        if row["depth"] > 0:
            continue
        before = first.setdefault(tuple(row[key] for key in _BLOCK), row)
        for column, error in _SPECTRUM.items():
            here, there = (np.array(each[column] or 0.0) for each in (row, before))
            room = row[error] + before[error]
            if here.shape != there.shape or np.abs(here - there).max() > room:
                pair = " and ".join(
                    _place(each, ("kernel", "activation")) for each in (before, row)
                )
                line = f"one Gram matrix differs in {column} between {pair}"
                raise BundleError(f"{path}: {line}, at {_place(row, _BLOCK)}")


def _require_sizes(rows: list[Row], sizes: dict[str, Row]) -> None:
    """Compare the dimensions of datasets wherever they are used."""
    for row in rows:
        before = sizes[row["dataset"]]
        if before["d"] is None:
            sizes[row["dataset"]] = row
        elif row["d"] != before["d"]:
            raise BundleError(
                f"{row['table']}: d of {row['dataset']} is {row['d']}, and {before['d']} in "
                f"{before['table']}"
            )


#: Settings of which eigenvalues are computed and kept.
_SOLVER = ("eigenvalues", "full_spectrum_below")
_CELL = ("kernel", "dataset", "activation", "depth", "seed", "block")
#: What a Gram matrix depends on, and its eigenvalues with the bounds on their errors.
_BLOCK = ("dataset", "seed", "block", "dtype")
_SPECTRUM = {
    "lambda_max": "lambda_max_error",
    "lambda_min": "lambda_min_error",
    "eigenvalues": "lambda_max_error",
}
#: Tables whose networks have fewer inputs than their dataset.
_OTHER_SIZES = ("orthogonality", "linearity")
_TRAINING = ("width", "n", "n_test", "classes", "loss", "batch_size")
_PLACE = ("shape", "dataset", "parameter", "n", "d", "seed")
_GEOMETRY = ("mean_cosine", "effective_dimension", "closest", "gram_kappa", "gram_bulk_kappa")
_CONSTANTS = ("mean", "mu", "mu_tilde", "dual_slope", "fixed_point")
#: By table, columns that have one value wherever the keys before them have.
_COMMON: Mapping[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]] = {
    "spectra": ((("dataset",), ("n", "d")),),
    "angles": ((("dataset",), ("d",)), (("dataset", "seed"), ("n", "duplicates"))),
    "datasets": ((("dataset",), ("d", "dtype", "scaling")),),
    "activation_study": ((("dataset",), ("n", "d")),),
    "bounds": ((("dataset",), ("n", "d", "delta_a", "delta_b")), (("activation",), _CONSTANTS)),
    "phase": ((_PLACE, _GEOMETRY), (("activation", "depth"), ("close_gain",))),
    "finite_width": (
        (("dataset",), ("d",)),
        (("dataset", "activation", "n", "depth"), ("infinite",)),
    ),
    "precision": ((("kernel", "activation", "depth", "seed", "delta"), ("kappa_reference",)),),
    "repairs": ((("dataset", "place", "repair"), ("n", "d")),),
    "architectures": (
        (("dataset",), ("n", "d")),
        (("model", "depth", "width", "dataset"), ("parameters",)),
    ),
    "training": ((POINT_KEYS, _TRAINING),),
    "training_kernels": ((POINT_KEYS, ("width", "n", "n_train")),),
    "kernels_along_training": ((POINT_KEYS, ("width", "n", "n_train", "loss", "batch_size")),),
    "claim_experiments": ((("paper", "statement"), ("procedure",)),),
    "predictions": (
        (
            POINT_KEYS,
            ("width", "n", "classes", "loss", "batch_size", "kernel_n", "epochs", "ranks"),
        ),
        ((*POINT_KEYS, "seed"), ("kappa", "effective_kappa", "alignment", "eigenvalues")),
        ((*POINT_KEYS, "seed"), ("label_energy", "lambda_max")),
    ),
    "orthogonality": (
        (("dataset",), ("n",)),
        (("architecture", "width"), ("hidden",)),
        (("architecture", "width", "layer", "dataset"), ("layer_width", "fan_in", "d")),
        (
            ("dataset", "architecture", "activation", "width", "label_scale", "steps", "seed"),
            ("loss",),
        ),
    ),
    "linearity": (
        (("dataset",), ("samples",)),
        (("architecture", "width"), ("hidden",)),
        (("dataset", "architecture", "width"), ("d", "parameters")),
        (
            ("dataset", "architecture", "activation", "width", "seed"),
            ("hessian_norm", "hessian_residual", "hessian_norm_fixed", "largest_weight"),
        ),
        (
            ("dataset", "architecture", "activation", "width", "seed"),
            ("steps", "loss_before", "loss_after", "kernel_change", "distance"),
        ),
    ),
}
