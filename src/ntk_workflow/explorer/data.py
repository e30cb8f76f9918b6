"""What the explorer's charts show, from a run's tables: plain rows, small enough for one page."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ntk_conditioning.kernels.interpolated_kernels import tables as tabulated
from ntk_conditioning.networks import activations
from ntk_conditioning.plotting import looks
from ntk_conditioning.theory import liu2023relu
from ntk_conditioning.training.curves import POINT_KEYS
from ntk_workflow.claims.checking import rows_of
from ntk_workflow.claims.pages import ERRATA
from ntk_workflow.claims.papers import Paper
from ntk_workflow.explorer.charts import TABLES as EXPLORED

Tables = Mapping[str, pd.DataFrame]

#: Points of a spectrum, about evenly in the logarithm of the rank, and of a training curve.
SPECTRUM_POINTS, CURVE_POINTS = 48, 60
#: log10 kappa of a singular Gram matrix: what makes it regular is beyond all colours.
SINGULAR = 99.0
#: Columns by which a claim's rows are found in a view.
DEPTH_KEY = ["kernel", "dataset", "activation", "depth"]
MAP_KEY = ["shape", "dataset", "parameter", "n", "d", "activation"]
KEYS = {"depth": DEPTH_KEY, "training": list(POINT_KEYS), "map": MAP_KEY}
#: The tables of the map: what was measured, and laws on a grid.
MAP, LAWS = (
    next(table for table in EXPLORED if EXPLORED[table] == view) for view in ("map", "laws")
)
#: Of two samples.
PAIR_ANGLES = np.concatenate([np.arange(1.0, 10), np.arange(10, 181, 2.5)])  # in degrees
PAIR_DEPTHS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
PAIR_ACTIVATIONS = ["relu", "tanh", "gelu", "selu", "sigmoid"]
PAIR_ACTIVATIONS += ["normalized_relu", "normalized_sigmoid"]
#: Columns that the claims' list shows.
CLAIM_COLUMNS = ["paper", "claim", "main", "place", "kind", "verdict", "statement", "quantity"]
CLAIM_COLUMNS += ["comparison", "target", "measured", "interval_low", "interval_high", "worst"]
CLAIM_COLUMNS += ["cases", "holding", "at_this_size"]


def depth(tables: Tables) -> pd.DataFrame:
    """Return kappa and smallest angles against depth, a row for each point of a curve."""
    if not {"spectra", "conditioning"} <= {*tables}:
        return pd.DataFrame()
    floors = tables["spectra"].groupby(DEPTH_KEY)
    floors = floors.agg(floor=("resolution_floor", "max"), lambda_max=("lambda_max", "mean"))
    rows = tables["conditioning"].merge(floors.reset_index(), on=DEPTH_KEY, how="left")
    names = {"kappa_mean": "kappa", "kappa_min": "low", "kappa_max": "high"}
    rows = rows.rename(columns={**names, "numerical_rank_min": "rank"})
    if "angles" in tables:
        angles = tables["angles"].groupby(DEPTH_KEY)["min_angle"]
        ranges = angles.agg(angle="mean", angle_low="min", angle_high="max").reset_index()
        rows = rows.merge(ranges, on=DEPTH_KEY, how="outer")
    kept = ["width", "n", "d", "seeds", "kappa", "low", "high", "rank", "floor", "lambda_max"]
    kept += ["angle", "angle_low", "angle_high", "key"]
    return keyed(rows, DEPTH_KEY).reindex(columns=[*DEPTH_KEY, *kept])


def answers(rows: pd.DataFrame) -> list[str]:
    """Return what depth does to kappa in a sentence for each dataset, of the rows of `depth`."""
    parts: dict[str, list[str]] = {}
    finite = rows[rows["kernel"] == "empirical_ntk"]
    finite = finite.sort_values("activation", key=lambda names: names == "linear", kind="stable")
    for (dataset, activation), curve in finite.groupby(["dataset", "activation"], sort=False):
        known = curve.dropna(subset="kappa")
        if known.empty:
            n, d, rank = (int(curve[key].max()) for key in ("n", "d", "rank"))
            why = f"{n} samples in {d} dimensions have a kernel of rank {rank}"
            part = f"there is none, since {why if rank < n else 'float64 does not resolve it'}"
        else:
            ends = zip(known["kappa"].iloc[[0, -1]], known["depth"].iloc[[0, -1]], strict=True)
            words = [f"{float(f'{kappa:.4g}'):,g} at depth {depth}" for kappa, depth in ends]
            falls = known["kappa"].iloc[-1] < known["kappa"].iloc[0]
            part = f"κ {'falls' if falls else 'rises'} from {words[0]} to {words[1]}"
            part = part if len(known) > 1 else f"κ is {words[0]}"
        name = looks.label("activation", activation)
        parts.setdefault(looks.label("dataset", dataset), []).append(f"with {name} {part}")
    return [f"{dataset}: {'; '.join(sentences)}." for dataset, sentences in parts.items()]


def spectra(tables: Tables) -> pd.DataFrame:
    """Return eigenvalues over the largest one by rank, of the first block of every seed."""
    blocks = [pd.DataFrame()]
    for row in tables.get("spectra", pd.DataFrame()).to_dict("records"):
        if row["eigenvalues"] is not None and row["block"] == 0:
            shares = np.asarray(row["eigenvalues"]) / row["eigenvalues"][0]
            ranks = np.geomspace(1, len(shares), SPECTRUM_POINTS).round().astype(int)
            points = pd.DataFrame({"rank": np.unique(ranks)})
            points["share"] = shares[points["rank"] - 1]
            cell = {key: row[key] for key in (*DEPTH_KEY, "seed")}
            points = points.assign(**cell, floor=row["resolution_floor"] / row["eigenvalues"][0])
            blocks.append(points[points["share"] > points["floor"] / 10])  # others are noise
    return pd.concat(blocks)


def training(tables: Tables) -> pd.DataFrame:
    """Return training losses by epoch, real and predicted."""
    if "training" not in tables:
        return pd.DataFrame()
    names = [*POINT_KEYS, "seed", "relative_rate", "epoch"]
    real = tables["training"][[*names, "train_loss"]].set_axis([*names, "loss"], axis=1)
    parts = [real.assign(kind="real")]
    if "predictions" in tables:
        long = tables["predictions"][[*names[:-1], "epochs", "predicted_loss"]]
        long = long.set_axis([*names, "loss"], axis=1).explode(["epoch", "loss"])
        parts.append(long.astype({"epoch": float, "loss": float}).assign(kind="predicted"))
    rows = pd.concat(parts)
    epochs = rows.groupby(list(POINT_KEYS))["epoch"]  # that were evaluated
    thin = (epochs.transform("nunique") / CURVE_POINTS).clip(lower=1).round()
    shown = (epochs.rank("dense") % thin == 1 % thin) | (rows["epoch"] == epochs.transform("max"))
    rows = keyed(rows[shown & (rows["loss"] > 0)], KEYS["training"])
    return rows.assign(network=rows[list(POINT_KEYS[:-1])].agg(" · ".join, axis=1))


def laws(tables: Tables) -> pd.DataFrame:
    """Return the laws' log10 kappa on the grid of the map, a column for each depth."""
    if LAWS not in tables:
        return pd.DataFrame()
    grid = tables[LAWS]
    hidden = (grid["lambda_min"] < 1e-10 * grid["bulk_max"]) & (grid["depth"] > 0)
    logs = np.log10(grid["kappa"].astype(float)).fillna(SINGULAR).mask(hidden)
    wide = grid.assign(log=logs).pivot_table("log", ["activation", "n", "d", "c"], "depth")
    rows = wide.add_prefix("depth_").reset_index()
    rows["x"], rows["y"] = rows["n"] / rows["d"], 1 - rows["c"]
    for name in ("x", "y"):  # with the ends of the cells of the grid in a logarithmic scale
        points = np.sort(rows[name].unique())
        steps = np.sqrt(points[1:] / points[:-1]) if len(points) > 1 else np.array([1.1])
        index = np.searchsorted(points, rows[name])
        rows[f"{name}_low"] = rows[name] / np.insert(steps, 0, steps[0])[index]
        rows[f"{name}_high"] = rows[name] * np.append(steps, steps[-1])[index]
    return rows


def places(tables: Tables) -> pd.DataFrame:
    """Return measured places of the map: random samples and datasets, a column for each depth."""
    if not {MAP, LAWS} <= {*tables}:
        return pd.DataFrame()
    rows = tables[MAP]
    random = rows["shape"].isin(["uniform", "equicorrelated"])
    rows = rows[random & (rows["n"] == tables[LAWS]["n"].iloc[0]) | (rows["shape"] == "data")]
    gram = rows.drop_duplicates([*MAP_KEY, "seed"]).assign(depth=0)
    gram["kappa"] = gram["gram_kappa"].fillna(10.0**SINGULAR)
    rows = pd.concat([gram, rows])
    rows = rows.assign(log=np.log10(rows["kappa"].astype(float)))
    by_place = rows.groupby(MAP_KEY)[["effective_dimension", "mean_cosine"]].mean()
    logs = rows.groupby([*MAP_KEY, "depth"])["log"].mean().unstack("depth").add_prefix("depth_")
    measured = logs.join(by_place).reset_index()
    data = measured["shape"] == "data"
    measured["x"] = measured["n"] / measured["effective_dimension"].where(data, measured["d"])
    measured["y"] = 1 - measured["mean_cosine"].where(data, measured["parameter"]).clip(lower=0)
    measured["name"] = [looks.label("dataset", name) for name in measured["dataset"].fillna("")]
    return keyed(measured, MAP_KEY)


def pairs() -> pd.DataFrame:
    """Return the angles of two samples after networks of infinite width, as in every run."""
    levels = {"activation": PAIR_ACTIVATIONS, "depth": PAIR_DEPTHS, "angle": PAIR_ANGLES}
    rows = pd.MultiIndex.from_product(levels.values(), names=levels).to_frame(index=False)
    w = 2 * np.sin(np.radians(PAIR_ANGLES) / 2) ** 2
    kernels = [tabulated(activations.get(name), PAIR_DEPTHS) for name in PAIR_ACTIVATIONS]
    gaps = np.concatenate([kernel[depth](w) for kernel in kernels for depth in PAIR_DEPTHS])
    rows["gradient"] = np.degrees(2 * np.arcsin(np.sqrt(np.clip(gaps / 2, 0, 1))))
    embeddings = [liu2023relu.embedding_angle(np.radians(PAIR_ANGLES), k) for k in PAIR_DEPTHS]
    relu = rows["activation"] == "relu"
    rows.loc[relu, "embedding"] = np.degrees(np.concatenate(embeddings))
    return rows


def claims(tables: Tables, papers: Sequence[Paper], shown: Tables) -> list[dict[str, Any]]:
    """Return the claims, main ones first, with verdicts and ``keys`` of rows that are ``shown``."""
    written = {(paper.name, claim.name): claim for paper in papers for claim in paper.claims}
    listed = []
    verdicts = tables.get("claims", pd.DataFrame()).to_dict("records")
    rank = {key: k for k, key in enumerate((p.name, name) for p in papers for name in p.main)}
    for row in sorted(verdicts, key=lambda row: rank.get((row["paper"], row["claim"]), len(rank))):
        claim, keys = written.get((row["paper"], row["claim"])), {}
        view = EXPLORED.get(claim.table) if claim else None
        if claim and view in KEYS and claim.table in tables:
            rows, there = rows_of(claim, tables), shown[view].get("key", ())
            if not rows.empty and (found := {*keyed(rows, KEYS[view])["key"]} & {*there}):
                keys[view] = sorted(found)
        if row["kind"] == "erratum":
            row["verdict"] = ERRATA.get(row["verdict"], row["verdict"])
        listed.append({name: plain(row[name]) for name in CLAIM_COLUMNS} | {"keys": keys})
    return listed


def keyed(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return rows with a column ``key`` that names them among a view's."""
    columns = (rows[key].map("{:g}".format if rows[key].dtype == float else str) for key in keys)
    return rows.assign(key=["|".join(values) for values in zip(*columns, strict=True)])


def plain(value: Any) -> Any:
    """Return a value as JSON has it: None for what is missing, seven digits of a number."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return None if value is pd.NA else value


def columns(rows: pd.DataFrame) -> dict[str, list[Any]]:
    """Return rows by column, as the page holds them."""
    return {str(name): [*map(plain, rows[name].to_numpy(object))] for name in rows.columns}
