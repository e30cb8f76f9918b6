"""What Figure 3 at width 512 came to, for docs/why_deeper_trains.md and resources/fig3."""

import tempfile
from itertools import pairwise
from pathlib import Path

import check_claims
import numpy as np
import pandas as pd
import select_learning_rates

from docs.build.marked import markdown_table
from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_conditioning.plotting import label
from ntk_conditioning.training.curves import POINT_KEYS
from ntk_workflow.claims.checking import NOT_TESTED
from ntk_workflow.pages.rendering import shown

ROOT = Path(__file__).parents[2]
CURVES = ROOT / "resources/fig3"
HEAD = ["first layer's scale", "seeds", "dataset", "depth", "best rate", "in its own 2/λ_max"]
HEAD += ["final loss, range over seeds", "epochs to a loss of 0.1", "loss at the best common rate"]
HEAD += ["kappa", "test accuracy", "sha256 of the curves"]
SCALES = {"fig3": "paper's", "fig3_code": "published code's"}
PLACES = {
    "processor, float32": [CURVES / "training/fig3_code/mnist/mlp/relu/depth-1.parquet"],
    "GPU, float32": [
        CURVES / "gpu/float32/depth-1.parquet",
        CURVES / "training/fig3_code/mnist/mlp/relu/depth-8.parquet",
    ],
    "GPU, TF32": [CURVES / "gpu/tf32/depth-1.parquet", CURVES / "gpu/tf32/depth-8.parquet"],
}


SIZES = {500: CURVES / "published", 100: CURVES}  # by epochs


def in_short() -> str:
    """Return what depth does at the best rates, and how often the deeper network ends lower."""
    head = ["epochs", "first layer's scale", "dataset", "seeds", "depths", "best rates"]
    head += ["final losses, means over seeds", "κ before training, means over seeds"]
    rows, counts = [], []
    for epochs, curves in SIZES.items():
        best, claims, ends = results(curves)
        best = best.sort_values("depth")
        for (experiment, dataset), depths in best.groupby(["experiment", "dataset"]):
            losses = ", ".join(f"{loss:.2g}" for loss in depths["final_loss_mean"])
            kappas = "; ".join(f"{kappa:,.0f}" for kappa in depths["kappa"])
            rates = ", ".join(f"{rate:g}" for rate in depths["relative_rate"])
            numbers = ", ".join(map(str, depths["depth"]))
            row = [str(epochs), SCALES[experiment], label("dataset", dataset)]
            rows.append([*row, str(depths["seeds"].iloc[0]), numbers, rates, losses, kappas])
        of_claim = claims.set_index("claim")
        for experiment, scale in SCALES.items():
            name = f"figure_3_every_rate_{'code' if experiment == 'fig3_code' else 'images'}"
            every = f"{of_claim.holding[name]} of {of_claim.cases[name]}"
            at_rates, at_multiples = lower(ends[ends["experiment"] == experiment])
            counts.append([str(epochs), scale, at_rates, at_multiples, every])
    steps = ["epochs", "first layer's scale", "at the same rate, all seeds below all"]
    steps += ["at the same multiple of each network's 2/λ_max", "`figure_3_every_rate_…`"]
    return f"{markdown_table(head, rows)}\n\n{markdown_table(steps, counts)}"


def in_markdown() -> str:
    """Return the best rates of width 512 and the claims that are tested on them."""
    best, claims, ends = results(CURVES)
    return f"{_best_rates(CURVES, best, ends)}\n\n{_verdicts(claims)}"


def published() -> str:
    """Return the trainings of the published size, and what else was trained in several places."""
    best, claims, ends = results(CURVES / "published")
    whole = _best_rates(CURVES / "published", best, ends)
    return f"{whole}\n\n{_verdicts(claims)}\n\n{_by_place()}"


def results(curves: Path) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the best rates of a folder's networks, the claims that are tested on them, and ends.

    These are the rows of the last epochs, with learning rates also as a ``multiple`` of the
    network's own 2/λ_max.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = {table: f"{folder}/{table}.parquet" for table in ("training", "training_kernels")}
        for table, path in paths.items():
            rows = tables.collect(sorted(curves.glob(f"{table}/**/*.parquet")), table)
            tables.write(path, table, rows)
        rates = f"{folder}/learning_rates.parquet"
        rule = ["--criterion", "final_loss", "--loss-level", "0.1", "--output", rates]
        inputs = ["--training", paths["training"], "--kernels", paths["training_kernels"]]
        assert select_learning_rates.main([*inputs, *rule]) == 0
        pages = [f"--{page}={folder}/{page}" for page in ("markdown", "html", "findings")]
        paper = ["--papers", str(ROOT / "papers/liu2023relu.yaml"), "--run", "fig3"]
        compared = ["--tables", *paths.values(), rates, "--output", f"{folder}/claims.parquet"]
        assert check_claims.main([*paper, *compared, *pages]) == 0
        best, claims, training, kernels = (
            tables.read(f"{folder}/{table}.parquet", table).to_pandas()
            for table in ("learning_rates", "claims", *paths)
        )
    network = [*POINT_KEYS, "seed"]
    ends = training[training["epoch"] == training["epoch"].max()]
    ends = ends.merge(kernels[[*network, "critical_learning_rate"]], on=network, validate="m:1")
    ends["multiple"] = ends["learning_rate"] / ends["critical_learning_rate"]
    return best, claims, ends


def _best_rates(curves: Path, best: pd.DataFrame, ends: pd.DataFrame) -> str:
    cells = []
    for row in best.sort_values(["experiment", "dataset", "depth"]).itertuples():
        keys = {key: getattr(row, key) for key in ("experiment", "dataset", "depth")}
        at_best = ends[(ends[[*keys]] == [*keys.values()]).all(axis=1)]
        at_best = at_best[at_best["relative_rate"] == row.relative_rate]
        multiples, accuracy = at_best["multiple"], at_best["test_accuracy"].mean()
        folder = f"training/{row.experiment}/{row.dataset}/mlp/relu"
        digest = sha256(curves / folder / f"depth-{row.depth}.parquet")[:16]
        cells.append(
            [
                *(SCALES[row.experiment], str(row.seeds), row.dataset, str(row.depth)),
                f"{row.relative_rate:g}",
                f"{multiples.mean():.0f} ({multiples.min():.0f} – {multiples.max():.0f})",
                f"{row.final_loss_mean:.3g} ({row.final_loss_min:.3g} – {row.final_loss_max:.3g})",
                shown(None if pd.isna(row.epochs_to_loss) else float(row.epochs_to_loss)),
                f"{row.common_loss_mean:.3g} ({row.common_rate:g})",
                *(f"{row.kappa:,.0f}", f"{accuracy:.4f}", f"`{digest}`"),
            ]
        )
    return markdown_table(HEAD, cells)


def _verdicts(claims: pd.DataFrame) -> str:
    """Return the claims that were tested, in Markdown."""
    verdicts = []
    for row in claims[claims["verdict"] != NOT_TESTED].itertuples():
        verdict = row.verdict if pd.isna(row.at_this_size) else row.at_this_size
        low, high = row.interval_low, row.interval_high  # missing of one network, the same if none
        interval = f" ({shown(low)} … {shown(high)})" if low < high else ""
        worst = f"{shown(row.measured)}{interval}, at {row.worst}"
        cases = f"{row.holding} of {row.cases}"
        verdicts.append([f"`{row.claim}`", verdict, worst, shown(row.expected), cases])
    columns = ["claim", "at this size", "worst case", "target", "cases that hold"]
    return markdown_table(columns, verdicts)


def lower(ends: pd.DataFrame) -> tuple[str, str]:
    """Return in how many cases the deeper of two neighbouring depths ends lower.

    First at the same rate, where no seed of either diverges: all its seeds below all of the other.
    Then at the same multiple of each network's 2/λ_max, in the mean over seeds of the logarithm.
    """
    at_rates, ratios = [], []
    for _, networks in ends.groupby("dataset"):
        for (_, shallower), (_, deeper) in pairwise(networks.groupby("depth")):
            losses = [  # at the rates at which all seeds train
                each.pivot(index="relative_rate", columns="seed", values="train_loss").dropna()
                for each in (shallower, deeper)
            ]
            both = losses[0].index.intersection(losses[1].index)
            at_rates += [*(losses[1].loc[both].max(axis=1) < losses[0].loc[both].min(axis=1))]
            ratios += _log_ratios(shallower, deeper)
    falls = sum(ratio < 0 for ratio in ratios)
    return f"{sum(at_rates)} of {len(at_rates)}", f"{falls} of {len(ratios)}"


def _log_ratios(shallower: pd.DataFrame, deeper: pd.DataFrame) -> list[float]:
    """Return means over seeds of the logarithm of two depths' final losses, at equal multiples."""
    ratios = []
    for seed, network in deeper.groupby("seed"):
        other = shallower[shallower["seed"] == seed].dropna(subset=["train_loss"])
        at, x, known = map(np.log, (other["multiple"], network["multiple"], other["train_loss"]))
        there = np.interp(x, at, known, left=np.nan, right=np.nan)
        ratios.append(network.assign(ratio=np.log(network["train_loss"]) - there))
    by_rate = pd.concat(ratios).groupby("relative_rate")["ratio"]
    return [values.mean() for _, values in by_rate if values.notna().all()]


def _by_place() -> str:
    """Return losses of the same networks, trained in several places."""
    keys = ["depth", "seed", "learning_rate"]
    losses = {}
    for place, paths in PLACES.items():
        curves = pd.concat(map(pd.read_parquet, paths))
        ends = curves[curves["epoch"] == curves["epoch"].max()].dropna(subset=["train_loss"])
        losses[place] = ends.set_index(keys)["train_loss"]
    cells = [
        [*(f"{key:g}" for key in row[:3]), *("–" if pd.isna(x) else f"{x:.5f}" for x in row[3:])]
        for row in pd.DataFrame(losses).reset_index().itertuples(index=False)
    ]
    return markdown_table(["depth", "seed", "rate", *PLACES], cells)
