"""What Figure 3 at width 512 came to, for docs/why_deeper_trains.md, from resources/fig3."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import check_claims
import numpy as np
import pandas as pd
import select_learning_rates

from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_conditioning.tables import TABLES, collect
from ntk_conditioning.training.curves import POINT_KEYS
from ntk_workflow.claims.checking import NOT_TESTED
from ntk_workflow.pages.rendering import markdown_table, shown

ROOT = Path(__file__).parents[2]
CURVES = ROOT / "resources/fig3"
PUBLISHED = CURVES / "published"
HEAD = ["dataset", "depth", "best rate", "in its own 2/λ_max", "final loss, range over seeds"]
HEAD += ["epochs to a loss of 0.1", "loss at the best common rate", "kappa"]
SCALES = {"fig3": "paper's", "fig3_code": "published code's"}
Network = tuple[str, str, int]


def results(curves: Path) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the best rates of a folder's networks, the claims that are tested on them, and ends.

    These are the rows of the last epochs, with learning rates also as a ``multiple`` of the
    network's own 2/λ_max.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, read = Path(name), {}
        for table in ("training", "training_kernels"):
            rows = collect(sorted(curves.glob(f"{table}/**/*.parquet")), TABLES[table])
            tables.write(folder / f"{table}.parquet", TABLES[table], rows)
            read[table] = rows.to_pandas()
        rule = ["--criterion", "final_loss", "--loss-level", "0.1"]
        inputs = ["--training", "training", "--kernels", "training_kernels"]
        inputs = [f"{folder}/{word}.parquet" if word[0] != "-" else word for word in inputs]
        rates = str(folder / "learning_rates.parquet")
        assert select_learning_rates.main([*inputs, *rule, "--output", rates]) == 0
        outputs = {"output": "claims.parquet", "markdown": "claims.md", "html": "claims.html"}
        outputs["findings"] = "findings.rst"
        written = [w for key, file in outputs.items() for w in (f"--{key}", str(folder / file))]
        paper = ["--papers", str(ROOT / "papers/liu2023relu.yaml"), "--run", "fig3"]
        compared = ["--tables", *inputs[1::2], rates]
        assert check_claims.main([*paper, *compared, *written]) == 0
        claims = tables.read(folder / "claims.parquet", "claims").to_pandas()
        ends = read["training"]
        ends = ends[ends["epoch"] == ends["epoch"].max()]
        network = [*POINT_KEYS, "seed"]
        kernels = read["training_kernels"][[*network, "critical_learning_rate"]]
        ends = ends.merge(kernels, on=network, validate="m:1")
        ends["multiple"] = ends["learning_rate"] / ends["critical_learning_rate"]
        return tables.read(rates, "learning_rates").to_pandas(), claims, ends


def in_markdown() -> str:
    """Return both as tables in Markdown."""
    best, claims, ends = results(CURVES)
    rows = [[SCALES[row.experiment], *_cells(row, _of(ends, row))] for row in _ordered(best)]
    head = ["first layer's scale", *HEAD]
    return f"{markdown_table(head, rows)}\n\n{_verdicts(claims)}"


def _ordered(best: pd.DataFrame) -> Iterable[Any]:
    return best.sort_values(["experiment", "dataset", "depth"]).itertuples()


def _of(ends: pd.DataFrame, row: Any) -> pd.DataFrame:
    """Return the ends of the networks of a row of the best rates."""
    keys = ["experiment", "dataset", "depth"]
    return ends[(ends[keys] == [getattr(row, key) for key in keys]).all(axis=1)]


def _cells(row: Any, ends: pd.DataFrame) -> list[str]:
    """Return the cells of a network in the columns of `HEAD`."""
    multiples = ends.loc[ends["relative_rate"] == row.relative_rate, "multiple"]
    spread = f"{row.final_loss_mean:.3g} ({row.final_loss_min:.3g} – {row.final_loss_max:.3g})"
    epochs = None if pd.isna(row.epochs_to_loss) else float(row.epochs_to_loss)
    common = f"{row.common_loss_mean:.3g} ({row.common_rate:g})"
    multiple = f"{multiples.mean():.0f} ({multiples.min():.0f} – {multiples.max():.0f})"
    cells = [row.dataset, str(row.depth), f"{row.relative_rate:g}", multiple, spread]
    return [*cells, shown(epochs), common, f"{row.kappa:,.0f}"]


def _verdicts(claims: pd.DataFrame) -> str:
    """Return the claims that were tested, in Markdown."""
    tested = claims[claims["verdict"] != NOT_TESTED]
    verdicts = []
    for row in tested.itertuples():
        verdict = row.verdict if pd.isna(row.at_this_size) else row.at_this_size
        low, high = row.interval_low, row.interval_high  # missing of one network, the same if none
        interval = f" ({shown(low)} … {shown(high)})" if low < high else ""
        worst = f"{shown(row.measured)}{interval}, at {row.worst}"
        cases = f"{row.holding} of {row.cases}"
        verdicts.append([f"`{row.claim}`", verdict, worst, shown(row.expected), cases])
    columns = ["claim", "at this size", "worst case", "target", "cases that hold"]
    return markdown_table(columns, verdicts)


def published() -> str:
    """Return the trainings of the published size, and what else was trained in several places."""
    best, claims, every = results(PUBLISHED)
    rows, ends = [], {}
    for row in _ordered(best):
        of = (
            PUBLISHED
            / f"training/{row.experiment}/{row.dataset}/mlp/relu/depth-{row.depth}.parquet"
        )
        last = ends[row.experiment, row.dataset, row.depth] = _of(every, row)
        accuracy = last[last["relative_rate"] == row.relative_rate]["test_accuracy"].mean()
        before = [SCALES[row.experiment], str(row.seeds)]
        rows.append([*before, *_cells(row, last), f"{accuracy:.4f}", f"`{sha256(of)[:16]}`"])
    head = ["first layer's scale", "seeds", *HEAD, "test accuracy", "sha256 of the curves"]
    whole = markdown_table(head, rows)
    pairs = [pair for pair in pairwise(ends) if pair[0][:2] == pair[1][:2]]
    compared = []
    for experiment, scale in SCALES.items():
        some = [pair for pair in pairs if pair[0][0] == experiment]
        compared += [[scale, *cells] for cells in _steps(some, ends)]
    steps = [head[0], "two neighbouring depths, none of whose seeds diverges"]
    of_steps = markdown_table([*steps, "the deeper ends lower"], compared)
    return f"{whole}\n\n{_verdicts(claims)}\n\n{of_steps}\n\n{_by_place()}"


def _steps(
    pairs: Sequence[tuple[Network, Network]], ends: Mapping[Network, pd.DataFrame]
) -> Iterator[tuple[str, str]]:
    """Yield how often the deeper of two networks ends lower, at the same rates and multiples."""
    at = [each for pair in pairs for each in _at_each_rate(*(ends[key] for key in pair))]
    lower = sum(deeper["max"] < shallower["min"] for shallower, deeper in at)
    yield "at the same rate: all its seeds below all of the other", f"{lower} of {len(at)}"
    ratios = [each for pair in pairs for each in _at_each_multiple(*(ends[key] for key in pair))]
    multiple = "at the same multiple of each network's own 2/λ_max: in the mean over seeds of the "
    multiple += "logarithm, the other interpolated between rates in both logarithms"
    yield multiple, f"{sum(ratio < 0 for ratio in ratios)} of {len(ratios)}"


def _at_each_rate(*ends: pd.DataFrame) -> Iterator[tuple[Any, Any]]:
    """Yield least and largest final losses over seeds of two depths, at rates that both take."""
    found = [
        each.groupby("relative_rate")["train_loss"].agg(["min", "max", "count", "size"])
        for each in ends
    ]
    for rate in found[0].index.intersection(found[1].index):
        pair = tuple(each.loc[rate] for each in found)
        if all(each["count"] == each["size"] for each in pair):
            yield pair


def _at_each_multiple(shallower: pd.DataFrame, deeper: pd.DataFrame) -> list[float]:
    """Return means over seeds of the logarithm of the ratio of two depths' final losses.

    They are at the deeper network's rates, the loss of the other being that at the same multiple of
    its own 2/λ_max, where all seeds of both train.
    """
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
    gpu, code = CURVES / "gpu", CURVES / "training/fig3_code/mnist/mlp/relu"
    places = {
        (1, "processor"): code / "depth-1.parquet",
        (1, "GPU"): gpu / "float32/depth-1.parquet",
        (1, "GPU, TF32"): gpu / "tf32/depth-1.parquet",
        (8, "GPU"): code / "depth-8.parquet",
        (8, "GPU, TF32"): gpu / "tf32/depth-8.parquet",
    }
    ends_of = {place: _final_losses(path) for place, path in places.items()}
    compared = []
    for depth, seed, rate in sorted({(key[0], *at) for key, of in ends_of.items() for at in of}):
        of = [
            ends_of.get((depth, place), {}).get((seed, rate))
            for place in ("processor", "GPU", "GPU, TF32")
        ]
        shown_as = ["–" if loss is None else f"{loss:.5f}" for loss in of]
        compared.append([str(depth), str(seed), f"{rate:g}", *shown_as])
    head = ["depth", "seed", "rate", "processor, float32", "GPU, float32", "GPU, TF32"]
    return markdown_table(head, compared)


def _final_losses(path: Path) -> dict[tuple[int, float], float]:
    """Return the losses after the last epoch by seed and rate, of networks that did not diverge."""
    curves = pd.read_parquet(path)
    ends = curves[(curves["epoch"] == curves["epoch"].max()) & curves["train_loss"].notna()]
    return {(row.seed, row.learning_rate): row.train_loss for row in ends.itertuples()}
