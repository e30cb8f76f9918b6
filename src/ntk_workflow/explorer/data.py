"""What the explorer's charts show, from a run's tables: plain rows, small enough for one page."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ntk_conditioning.training.curves import POINT_KEYS
from ntk_workflow.claims.checking import rows_of
from ntk_workflow.claims.papers import Paper
from ntk_workflow.explorer.charts import TABLES as EXPLORED

Tables = Mapping[str, pd.DataFrame]

#: Points of a spectrum, about evenly in the logarithm of the rank, and of a training curve.
SPECTRUM_POINTS, CURVE_POINTS = 48, 60
#: log10 kappa of a singular Gram matrix: what makes it regular is beyond all colours.
SINGULAR = 99.0
#: Columns by which a claim's rows are found in a view.
DEPTH_KEY = ("kernel", "dataset", "activation", "depth")
MAP_KEY = ("shape", "dataset", "parameter", "n", "d", "activation")
KEYS = {"depth": DEPTH_KEY, "training": POINT_KEYS, "map": MAP_KEY}
#: Columns that the claims' list shows.
CLAIM_COLUMNS = (
    *("paper", "claim", "place", "kind", "verdict", "statement", "quantity", "comparison"),
    *("target", "measured", "interval_low", "interval_high", "worst", "cases", "holding"),
)


def depth(tables: Tables) -> pd.DataFrame:
    """Return kappa and smallest angles against depth, a row for each point of a curve."""
    if not {"spectra", "conditioning"} <= set(tables):
        return pd.DataFrame()
    floors = tables["spectra"].groupby(list(DEPTH_KEY))
    floors = floors.agg(floor=("resolution_floor", "max"), lambda_max=("lambda_max", "mean"))
    rows = tables["conditioning"].merge(floors.reset_index(), on=list(DEPTH_KEY), how="left")
    names = {"kappa_mean": "kappa", "kappa_min": "low", "kappa_max": "high"}
    rows = rows.rename(columns={**names, "numerical_rank_min": "rank"})
    if "angles" in tables:
        angles = tables["angles"].groupby(list(DEPTH_KEY))["min_angle"]
        found = angles.agg(angle="mean", angle_low="min", angle_high="max").reset_index()
        rows = rows.merge(found, on=list(DEPTH_KEY), how="outer")
    kept = ["width", "n", "seeds", "kappa", "low", "high", "rank", "floor", "lambda_max"]
    kept += ["angle", "angle_low", "angle_high", "key"]
    return keyed(rows, DEPTH_KEY).reindex(columns=[*DEPTH_KEY, *kept])


def spectra(tables: Tables) -> pd.DataFrame:
    """Return eigenvalues over the largest one by rank, of the first block of every seed."""
    found = []
    for row in tables.get("spectra", pd.DataFrame()).to_dict("records"):
        if (values := row["eigenvalues"]) is None or row["block"] != 0:
            continue
        ranks = np.unique(np.geomspace(1, len(values), SPECTRUM_POINTS).round().astype(int))
        cell = {key: row[key] for key in (*DEPTH_KEY, "seed")}
        cell |= {"floor": row["resolution_floor"] / values[0]}
        points = pd.DataFrame({"rank": ranks, "share": np.asarray(values)[ranks - 1] / values[0]})
        found.append(
            points[points["share"] > cell["floor"] / 10].assign(**cell)
        )  # others are noise
    return pd.concat(found) if found else pd.DataFrame()


def training(tables: Tables) -> pd.DataFrame:
    """Return training losses by epoch, real and predicted."""
    if "training" not in tables:
        return pd.DataFrame()
    curves = tables["training"]
    epochs = curves.groupby("experiment")["epoch"].transform("max")
    thin = (epochs / CURVE_POINTS).clip(lower=1).round().astype(int)
    kept = curves[(curves["epoch"] % thin == 0) | (curves["epoch"] == epochs)]
    names = [*POINT_KEYS, "seed", "relative_rate", "epoch"]
    parts = [kept[[*names, "train_loss"]].set_axis([*names, "loss"], axis=1).assign(kind="real")]
    if "predictions" in tables:
        long = tables["predictions"][[*names[:-1], "epochs", "predicted_loss"]]
        long = long.set_axis([*names, "loss"], axis=1).explode(["epoch", "loss"])
        long = long.astype({"epoch": float, "loss": float})
        step = long.groupby("experiment")["epoch"].transform("max") / CURVE_POINTS
        parts.append(long[long["epoch"] % step.clip(lower=1).round() == 0].assign(kind="predicted"))
    rows = pd.concat(parts).dropna(subset=["loss"])
    return keyed(rows[rows["loss"] > 0], POINT_KEYS)


def laws(tables: Tables) -> pd.DataFrame:
    """Return the laws' log10 kappa on the grid of the map, a column for each depth."""
    if "phase_laws" not in tables:
        return pd.DataFrame()
    grid = tables["phase_laws"]
    hidden = (grid["lambda_min"] < 1e-10 * grid["bulk_max"]) & (grid["depth"] > 0)
    logs = np.log10(grid["kappa"].astype(float)).fillna(SINGULAR).mask(hidden)
    wide = grid.assign(log=logs).pivot_table(
        index=["activation", "n", "d", "c"], columns="depth", values="log"
    )
    wide.columns = [f"depth_{depth}" for depth in wide.columns]
    rows = wide.reset_index()
    rows["x"], rows["y"] = rows["n"] / rows["d"], 1 - rows["c"]
    for name in ("x", "y"):
        rows = rows.merge(_edges(rows[name]), left_on=name, right_index=True)
    return rows


def _edges(values: pd.Series) -> pd.DataFrame:
    """Return the ends of the cells of a grid in a logarithmic scale."""
    points = np.sort(values.unique())
    between = np.sqrt(points[1:] * points[:-1])
    first = points[0] ** 2 / between[0] if len(between) else points[0] / 1.1
    last = points[-1] ** 2 / between[-1] if len(between) else points[-1] * 1.1
    ends = np.concatenate([[first], between, [last]])
    name = values.name
    return pd.DataFrame({f"{name}_low": ends[:-1], f"{name}_high": ends[1:]}, index=points)


def places(tables: Tables) -> pd.DataFrame:
    """Return measured places of the map: random samples and datasets, a column for each depth."""
    if not {"phase", "phase_laws"} <= set(tables):
        return pd.DataFrame()
    rows = tables["phase"]
    n = tables["phase_laws"]["n"].iloc[0]
    random = rows["shape"].isin(["uniform", "equicorrelated"]) & (rows["n"] == n)
    rows = rows[random | (rows["shape"] == "data")]
    gram = rows.drop_duplicates([*MAP_KEY, "seed"]).assign(depth=0)
    gram = gram.assign(kappa=gram["gram_kappa"].fillna(10.0**SINGULAR))
    rows = pd.concat([gram, rows])
    rows = rows.assign(log=np.log10(rows["kappa"].astype(float)))
    kept = [*MAP_KEY, "effective_dimension", "mean_cosine"]
    wide = rows.groupby([*MAP_KEY, "depth"])["log"].mean().unstack("depth")
    wide.columns = [f"depth_{depth}" for depth in wide.columns]
    place = rows.groupby(list(MAP_KEY))[kept[-2:]].mean()
    found = wide.join(place).reset_index()
    data = found["shape"] == "data"
    found["x"] = found["n"] / found["effective_dimension"].where(data, found["d"])
    cosine = found["mean_cosine"].where(data, found["parameter"]).clip(lower=0)
    found["y"] = 1 - cosine
    return keyed(found, MAP_KEY)


def claims(tables: Tables, papers: Sequence[Paper]) -> list[dict[str, Any]]:
    """Return the claims with their verdicts, and the ``keys`` of their rows by view."""
    verdicts = tables.get("claims", pd.DataFrame(columns=["paper", "claim"]))
    written = {(paper.name, claim.name): claim for paper in papers for claim in paper.claims}
    found = []
    for row in verdicts.to_dict("records"):
        entry = {name: plain(row[name]) for name in CLAIM_COLUMNS}
        claim, keys = written.get((row["paper"], row["claim"])), {}
        if claim and (view := EXPLORED.get(claim.table)) and claim.table in tables:
            rows = rows_of(claim, tables)
            if not rows.empty and {*KEYS[view]} <= {*rows}:
                keys[view] = sorted({*keyed(rows, KEYS[view])["key"]})
        found.append({**entry, "keys": keys})
    return found


def keyed(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return rows with a column ``key`` that names them among a view's."""

    def text(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    columns = (rows[name].to_numpy(object) for name in names)
    return rows.assign(key=["|".join(map(text, values)) for values in zip(*columns, strict=True)])


def plain(value: Any) -> Any:
    """Return a value as JSON has it: None for what is missing, seven digits of a number."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return None if value is pd.NA else value


def columns(rows: pd.DataFrame) -> dict[str, list[Any]]:
    """Return rows by column, as the page holds them."""
    return {str(name): [*map(plain, rows[name].to_numpy(object))] for name in rows.columns}
