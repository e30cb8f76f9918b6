"""Numbers that follow from others in the same row: condition numbers from eigenvalues, say.

The functions are those of the science that made them.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ntk_conditioning.networks import activations
from ntk_conditioning.spectra.conditioning import EPS, growth, resolved_ratio, summary
from ntk_conditioning.spectra.labels import REST
from ntk_conditioning.spectra.spike_and_bulk import SpikeAndBulk
from ntk_conditioning.theory.bounds_vs_exact import bounds_of
from ntk_conditioning.training.predicted_times import SHARES, parted, times

TOLERANCE = 1e-9  #: relative; other processors round differently
ABOVE = 0.1  #: cosines above which pairs are counted
LARGE = 1e-3  #: differences of numbers of size 1 that keep enough of their digits

Row = dict[str, Any]
#: A column, the value that follows, and from what.
Follows = Iterator[tuple[str, Any, str]]


def same(a: Any, b: Any) -> bool:
    """Return whether two values are the same but for rounding."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float | int):
        return a == b or math.isclose(a, b, rel_tol=TOLERANCE) or (a != a and b != b)
    return bool(a == b)


def _spectra(row: Row) -> Follows:
    full = row["lambda_min"] is not None and row["lambda_min"] > row["resolution_floor"]
    eigenvalues = row["eigenvalues"] and np.array(row["eigenvalues"])
    smallest = row["lambda_min"], row["lambda_min_error"]
    found = summary(
        row["n"],
        (row["lambda_max"], row["lambda_max_error"]),
        smallest if full or eigenvalues is not None else (math.nan, math.nan),
        row["resolution_floor"],
        np.dtype(row["dtype"]),
        method=row["method"],
        rank=row["n"] if full else row["numerical_rank"],
        eigenvalues=eigenvalues,
    )
    names = ["kappa", "kappa_error", "numerical_rank", "reduced_precision"]
    why = "its extreme eigenvalues and their errors"
    if eigenvalues is not None:
        names += ["kappa_nonzero", "effective_rank"]
        why = "its eigenvalues"
        yield "n", len(eigenvalues), why
        yield "lambda_max", float(eigenvalues[0]), why
        yield "lambda_min", float(eigenvalues[-1]), why
        yield "eigenvalues", sorted(row["eigenvalues"], reverse=True), "sorting"
    elif full:
        names.append("kappa_nonzero")
    yield from ((name, getattr(found, name), why) for name in names)
    if row["numerical_rank"] >= row["n"] and not full:
        yield "numerical_rank", row["n"] - 1, "lambda_min below the floor"
    method = "spectrum" if row["lambda_min"] is not None else "extremes"
    if row["depth"] == 0 or row["activation"] == "linear":
        method = "factor"
    if method != "spectrum" or row["eigenvalues"] is not None:
        yield "method", method, "its network and eigenvalues"
    eps = float(np.finfo(row["dtype"]).eps)
    if row["method"] == "spectrum":
        error = growth(row["n"]) * EPS * row["lambda_max"]
        why = "n, rounding and lambda_max"
        floor, empirical = row["resolution_floor"], row["kernel"].startswith("empirical")
        if not empirical and floor > row["n"] * EPS * row["lambda_max"] * (1 + TOLERANCE):
            error, why = error + floor, f"{why}, and the floor, which the dual's error gives"
        yield "lambda_max_error", error, why
        if row["lambda_min"] is not None:
            yield "lambda_min_error", error, why
        if empirical or _is_exact(row["activation"]):
            yield "resolution_floor", row["n"] * eps * row["lambda_max"], "n, eps and lambda_max"
    if row["method"] == "factor":  # the samples times a matrix
        largest, why = max(row["n"], row["d"]), "n, d, rounding and its eigenvalues"
        yield "resolution_floor", (largest * eps) ** 2 * row["lambda_max"], why
        error = growth(largest) * EPS * math.sqrt(row["lambda_max"])
        for end in ("lambda_max", "lambda_min"):
            known = 2 * math.sqrt(max(row[end] or 0.0, 0.0)) * error + error**2
            full = end == "lambda_max" or row["d"] >= row["n"]
            yield f"{end}_error", known if full else 0.0, why


def _is_exact(activation: str) -> bool:
    """Return whether entries of the kernel of infinite width are known but for rounding."""
    known = activations.base_name(activation) in activations.names()
    return known and activations.get(activation).homogeneous


def _angles(row: Row) -> Follows:
    if row["kernel"].startswith("empirical"):
        yield "min_angle_error", None, "a finite width"
    yield "i", min(row["i"], row["j"] - 1), "j"
    yield "j", min(row["j"], row["n"] - 1), "n"
    yield "duplicates", min(row["duplicates"], row["n"] * (row["n"] - 1) // 2), "n"
    if row["min_angle"] > 0:
        yield "candidates", max(row["candidates"], 1), "a smallest angle"


def _datasets(row: Row) -> Follows:
    ends = ("norm_min", "norm_median", "norm_max")
    if row["scaling"] == "unit_norm":
        yield from ((name, 1.0, "scaling unit_norm") for name in ends)
    low, middle, high = (row[name] for name in ends)
    yield "norm_median", min(max(middle, low), high), "norm_min and norm_max"
    yield "min", min(row["min"], row["max"]), "max"
    yield "gram_rank", min(row["gram_rank"], row["n"], row["d"]), "n and d"
    yield "constant_columns", min(row["constant_columns"], row["d"]), "d"
    if (classes := row["classes"]) is None:
        yield from ((name, None, "no classes") for name in ("class_min", "class_max"))
    else:
        n, least, most = row["n"], row["class_min"], row["class_max"]
        yield "class_min", min(least, n - (classes - 1) * least, n // classes), "n and classes"
        yield "class_max", max(most, -(-n // classes)), "n and classes"
        yield "class_max", min(most, n - (classes - 1) * least), "n, classes and class_min"
        yield "class_min", max(least, n - (classes - 1) * most), "n, classes and class_max"


def _finite_width(row: Row) -> Follows:
    yield "resolved", min(row["resolved"], row["networks"]), "networks"
    names = ("mean", "mean_error", "variance", "variance_error", "low", "median", "high")
    if row["resolved"] < 2:
        yield from ((name, None, "fewer than two networks") for name in names)
        return
    yield "mean_error", math.sqrt(row["variance"] / row["resolved"]), "variance and resolved"
    yield "median", min(max(row["median"], row["low"]), row["high"]), "low and high"


def _linearity(row: Row) -> Follows:
    ways = ("random", "gradient", "eigenvector", "ascent")
    largest = max(row[f"quadratic_{way}"] for way in ways)
    if row["samples"] == 1:
        yield "quadratic_term", largest, "its largest by random directions and others"
    if "-" in row["hidden"]:
        yield "bound", None, "more than two layers"


def _orthogonality(row: Row) -> Follows:
    if row["layer"] == 1:  # no two of its neurons have a weight in common
        yield from ((f"cos_{n}", 0.0, "the first layer") for n in ("mean", "rms", "max", "above"))
        yield "cos_norm", 1.0, "the first layer"
    mean, rms, most = (row[f"cos_{name}"] for name in ("mean", "rms", "max"))
    yield "cos_rms", min(max(rms, mean), most), "cos_mean and cos_max"
    norm = min(max(row["cos_norm"], 1.0), row["layer_width"])
    if not math.isclose(norm, row["cos_norm"], rel_tol=LARGE):
        yield "cos_norm", norm, "a diagonal of 1 and layer_width"
    if most <= ABOVE:
        yield "cos_above", 0.0, "cos_max"


def _training(row: Row) -> Follows:
    yield "steps", row["epoch"] * -(-row["n"] // row["batch_size"]), "epoch, n and batch_size"
    yield "diverged", row["train_loss"] is None, "train_loss"
    for part, count in (("train", row["n"]), ("test", row["n_test"])):
        share = row[f"{part}_accuracy"]
        if part == "train" or not count:
            missing = row["diverged"] or not count
            loss = row[f"{part}_loss"]
            yield f"{part}_loss", None if missing else loss, "diverged and the number of samples"
            yield f"{part}_accuracy", None if missing else share, "diverged"
        if share is not None and count:
            right = min(max(round(share * count), 0), count)
            yield f"{part}_accuracy", right / count, f"a whole number of {count} samples"
    if not row["n_test"] or row["diverged"] or row["model"] == "mlp":
        yield "test_dot_product", None, "a diverged network, an mlp or no test samples"
    if row["epoch"] == 0 or row["diverged"]:
        yield "gradient_norm", None, "a network without steps"


def _kernels_along_training(row: Row) -> Follows:
    yield from _ratio(row)
    if row["epoch"] == 0 and row["kernel_change"] is not None:
        yield "kernel_change", 0.0, "an epoch before all steps"


def _ratio(row: Row) -> Follows:
    """Where the smallest eigenvalue is kept only if it is resolved."""
    low = row["lambda_min"]
    yield "kappa", None if low is None else row["lambda_max"] / low, "lambda_max and lambda_min"


def _architectures(row: Row) -> Follows:
    yield from _ratio(row)
    if row["lambda_min"] is not None:
        yield "numerical_rank", row["n"], "a resolved lambda_min"
    floor = row["n"] * EPS * row["lambda_max"]
    yield "resolution_floor", floor, "n, rounding and lambda_max"
    error = growth(row["n"]) * EPS * row["lambda_max"]
    if row["kappa"] is not None:
        _, value = resolved_ratio((row["lambda_max"], error), (row["lambda_min"], error))
        yield "kappa_error", value, "the eigenvalues and their errors"


def _training_kernels(row: Row) -> Follows:
    yield from _ratio(row)
    yield "critical_learning_rate", 2 * row["n"] / row["lambda_max"], "n and lambda_max"


def _bounds(row: Row) -> Follows:
    excess = row["excess"]
    yield "kappa", None if excess is None else 1 + excess, "its excess"
    if excess is not None and row["lambda_min"] > row["lambda_error"]:
        ratio = row["lambda_max"] / row["lambda_min"]
        error = row["lambda_error"] * (1 + ratio) / (row["lambda_min"] - row["lambda_error"])
        if abs(ratio - 1 - excess) > 2 * error + TOLERANCE * ratio:
            yield "kappa", ratio, "lambda_max and lambda_min"
    if row["kernel"] == "infinite_ntk":
        for name in ("distance", "distance_error", "distance_bound"):
            yield name, None, "a kernel other than nngp"
    given = dict.fromkeys(_BOUNDS)
    if row["mean"] == 0:
        given |= bounds_of(row, ntk=row["kernel"] == "infinite_ntk")
    yield from ((name, value, "mean, delta, mu and the depth") for name, value in given.items())
    if row["kernel"] == "nngp" and row["fixed_point"] == 0:
        yield "distance", row["correlation_max"], "correlation_max and fixed_point"
    if excess is None:
        yield "excess_error", None, "its excess"
    else:
        low, high, error = row["lambda_min"], row["lambda_max"], row["lambda_error"]
        if not 0 <= error < low:
            yield "excess", None, "a lambda_min that is not above its error"
            return
        bound = (high - low + 2 * error) / (low - error) - excess
        # both are differences of numbers of the size of the excess, near which lambda_min is 1
        rounding = 8 * EPS * (1 + excess)
        wrong = abs(bound - row["excess_error"]) > LARGE * bound + rounding
        if wrong or row["excess_error"] < -rounding:
            yield "excess_error", bound, "its eigenvalues and lambda_error"
    n, known = row["n"], max(1.0, *(abs(row[name] - 1) for name in ("lambda_min", "lambda_max")))
    if row["kernel"] == "nngp":
        error = n * (row["correlation_error"] + EPS * known)
        yield "lambda_error", error, "correlation_error, n and rounding"


def _activation_study(row: Row) -> Follows:
    """A summary of blocks that are not in the bundle; of two, the extremes say all."""
    low, high, mean = row["kappa_min"], row["kappa_max"], row["kappa_mean"]
    yield "width", None, "an infinite width"
    yield "resolved", min(row["resolved"], row["blocks"]), "blocks"
    if high is not None:
        yield "resolved", row["blocks"], "a largest kappa"
    if row["resolved"] < row["blocks"]:
        names = ("kappa_max", "kappa_mean", "kappa_geometric_mean", "kappa_seed_max")
        yield from ((name, None, "blocks that are not resolved") for name in names)
        return
    why = "the smallest and the largest kappa"
    if row["blocks"] <= 2:
        yield "kappa_mean", (low + high) / 2, why
        yield "kappa_median", (low + high) / 2, why
        yield "kappa_geometric_mean", math.sqrt(low * high), why
    if row["blocks"] == row["seeds"]:
        yield "kappa_seed_min", low, why
        yield "kappa_seed_max", high, why
    yield "kappa_mean", min(max(mean, low), high), why
    yield "kappa_nonzero_mean", mean, "kappa_mean, as all blocks are resolved,"
    for name in ("numerical_rank_min", "numerical_rank_max"):
        yield name, row["n"], "n, as all blocks are resolved,"


def _activations(row: Row) -> Follows:
    name = row["activation"]
    yield "base", name.removeprefix(activations.NORMALIZED), "its name"
    yield "normalized", name.startswith(activations.NORMALIZED), "its name"
    if activations.base_name(name) in activations.names():  # the user's own is not imported
        sigma = activations.get(name.removeprefix(activations.NORMALIZED))
        yield "kinks", list(sigma.kinks), "its definition"
        if sigma.name == name:
            numbers = sigma.shifted_relu or (None, None, None)
            for column, number in zip(("scale", "kink", "offset"), numbers, strict=True):
                yield column, number, "its definition"
    yield "a_1", row["coefficients"][1], "its coefficients"
    rest = 1 - math.fsum(a**2 for a in row["coefficients"])
    if abs(row["tail"] - rest) > 100 * EPS:
        yield "tail", rest, "its coefficients"
    yield "mean", row["coefficients"][0] / row["gain"], "its coefficients and gain"
    if row["non_affinity"] > LARGE:
        first, second = row["coefficients"][:2]
        yield "non_affinity", 1 - first**2 - second**2, "its coefficients"


def _precision(row: Row) -> Follows:
    yield "kappa", row["ratio"] if row["resolved"] else None, "its ratio"
    error = abs(row["ratio"] / row["kappa_reference"] - 1)
    if not abs(error - row["relative_error"]) <= 4 * EPS * (1 + error):
        yield "relative_error", error, "its ratio and kappa_reference"
    eps = float(np.finfo(np.float32 if "float32" in row["method"] else np.float64).eps)
    floor, why = 1 / (row["n"] * eps), "its method's precision and n"
    if row["method"] == "factor":
        columns = row["d"] + row["depth"] * row["width"]
        floor, why = (max(row["n"], columns) * eps) ** -2, "precision, n, d, depth and width"
    yield "floor_kappa", floor, why
    if row["method"] not in _GUARDED:
        yield "resolved", True, "a method that reports any ratio"
    elif not floor / 20 < row["ratio"] < floor * (1 + LARGE):  # there a bound on its error decides
        yield "resolved", 0 < row["ratio"] < floor, "its ratio and floor_kappa"


def _phase(row: Row) -> Follows:
    names = ("n", "lambda_max", "lambda_2", "lambda_min", "bulk_max", "bulk_min")
    errors = ("lambda_max_error", "lambda_min_error")
    found = SpikeAndBulk(**{name: row[name] for name in (*names, *errors)})
    for name in ("kappa", "kappa_error", "bulk_kappa"):
        yield name, getattr(found, name), "its eigenvalues and their errors"
    room = row["lambda_max_error"] + row["lambda_min_error"]
    bulk, second = row["bulk_max"], row["lambda_2"]
    if not second - room <= bulk <= row["lambda_max"] + room:  # they interlace
        yield "bulk_max", min(max(bulk, second), row["lambda_max"]), "lambda_2 and lambda_max"
    low = min(row["law_lambda_min"], row["pair_bound"])
    yield "law_kappa", row["law_lambda_max"] / low if low > 0 else None, "what the laws have"


def _repairs(row: Row) -> Follows:
    possible = ["top_directions"] if row["directions"] else _REPAIRS[row["place"]]
    if row["repair"] not in possible:
        yield "repair", possible[0], "its place and directions"
    times = [row[f"steps_{share}"] or math.inf for share in ("half", "tenth", "hundredth")]
    if times != sorted(times):
        yield "steps_tenth", sorted(times)[1], "the order of the shares"
    if None not in (row["kappa"], row["effective_kappa"]):
        yield "effective_kappa", min(row["effective_kappa"], row["kappa"]), "kappa"
    error = growth(row["n"]) * EPS * row["lambda_max"]
    kappa, _ = resolved_ratio((row["lambda_max"], error), (row["lambda_min"], error))
    yield "kappa", kappa, "lambda_max and lambda_min"


def _phase_laws(row: Row) -> Follows:
    low, high = row["lambda_min"], row["lambda_max"]
    yield "kappa", high / low if low > 0 else None, "lambda_max and lambda_min"
    yield "bulk_max", min(max(row["bulk_max"], low), high), "lambda_min and lambda_max"


def _predictions(row: Row) -> Follows:
    epochs, real, predicted = row["epochs"], row["train_loss"], row["predicted_loss"]
    yield "last_epoch", epochs[-1], "its epochs"
    yield from ((name, at, "its losses") for name, at in times(epochs, real).items())
    yield "parted_epoch", parted(epochs, real, predicted), "both losses"
    if row["method"] == "flow":
        found = times(epochs, predicted, prefix="predicted_")
        yield from ((name, at, "its predicted losses") for name, at in found.items())
    critical = 2 * row["kernel_n"] / row["lambda_max"]
    yield "critical_learning_rate", critical, "kernel_n and lambda_max"
    eigenvalues, energy = row["eigenvalues"], row["label_energy"]
    yield "lambda_max", eigenvalues[0], "its eigenvalues"
    yield "eigenvalues", sorted(eigenvalues, reverse=True), "sorting"
    yield "label_energy", sorted(energy), "sorting"
    if row["ranks"][-1] == row["kernel_n"]:
        kappa = row["kappa"] and row["lambda_max"] / eigenvalues[-1]
        yield "kappa", kappa, "its eigenvalues"
        if abs(energy[-1] - 1) > TOLERANCE:
            yield "label_energy", [*energy[:-1], 1.0], "all of its eigenvectors"
    if row["effective_kappa"] is not None:
        reached = next(k for k, share in enumerate(energy) if share > 1 - REST - TOLERANCE)
        lower = row["lambda_max"] / eigenvalues[max(reached - 1, 0)]
        upper = row["lambda_max"] / eigenvalues[reached]
        known = min(max(row["effective_kappa"], lower), upper)
        yield "effective_kappa", known, "its eigenvalues and label_energy"
    if row["method"] != "flow":
        yield "method", "eigenvectors", "what there is"
        for name, share in SHARES.items():
            time = row[f"predicted_epochs_to_{name}"]
            at = time is not None and [k for k, epoch in enumerate(epochs) if epoch >= time]
            if at and at[0] and not predicted[at[0]] <= share * predicted[0] * (1 + TOLERANCE):
                found = times(epochs, predicted, prefix="predicted_")
                name = f"predicted_epochs_to_{name}"
                yield name, found[name], "its predicted losses"
    if not math.isclose(predicted[0], real[0], rel_tol=LARGE):
        yield "predicted_loss", [real[0], *predicted[1:]], "the loss where the training begins"


#: By table, what follows in each of its rows.
FOLLOWS: Mapping[str, Callable[[Row], Follows]] = {
    "spectra": _spectra,
    "angles": _angles,
    "datasets": _datasets,
    "finite_width": _finite_width,
    "linearity": _linearity,
    "orthogonality": _orthogonality,
    "training": _training,
    "activation_study": _activation_study,
    "activations": _activations,
    "architectures": _architectures,
    "training_kernels": _training_kernels,
    "kernels_along_training": _kernels_along_training,
    "bounds": _bounds,
    "phase": _phase,
    "phase_laws": _phase_laws,
    "repairs": _repairs,
    "precision": _precision,
    "predictions": _predictions,
}
#: What agarwal2021deep bounds where the mean of an activation is 0.
_BOUNDS = (
    *("l_0", "l_0_b", "l_kappa", "correlation_bound", "lambda_min_bound"),
    *("excess_bound_a", "excess_bound_a_proof", "excess_bound_b"),
)
#: Recipes for kappa that say when they do not resolve it.
_GUARDED = ("float32", "float64", "extremes", "factor", "deficits")
_REPAIRS = {
    "nothing": ("none",),
    "samples": ("centred", "unit_norm", "centred_unit_norm", "standardized_unit_norm"),
    "kernel": ("centred", "unit_norm"),
}
