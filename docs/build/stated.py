"""What the text of liu2023relu states of its figures beside ours, for docs/liu2023relu.md."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from docs.build.figure_3 import results
from docs.build.marked import markdown_table
from ntk_conditioning import tables
from ntk_conditioning.plotting import label
from ntk_conditioning.theory import liu2023relu as theory

ROOT = Path(__file__).parents[2]
DEPTHS = range(1, 11)
ANGLES = np.linspace(0, 180, 18_001)[1:-1]  # degrees
HEAD = ["figure", "the text", "ours", "size"]
FORMULA, BLOCKS = "formulas", "all of the training set, blocks of 512, width 512, five seeds"


def in_markdown() -> str:
    """Return the table, with datasets of one statement and size in one row."""
    rows = [*formulas(), *separation(), *conditioning(), *training(), *one_layer()]
    ours: dict[tuple[str, str, str], list[str]] = {}
    for figure, text, found, size in rows:
        ours.setdefault((figure, text, size), []).append(found)
    return markdown_table(HEAD, [(*key[:2], "; ".join(ours[key]), key[2]) for key in ours])


def formulas() -> list[tuple[str, str, str, str]]:
    """Return what follows from Theorem 4.4 and Eq. (14), at infinite width."""
    radians = np.radians(ANGLES)
    moved = {depth: np.degrees(theory.gradient_angle(radians, depth)) for depth in DEPTHS}
    wider = [ANGLES[moved[depth] > ANGLES].max() for depth in DEPTHS]
    deeper = [ANGLES[moved[b] > moved[a]].max() for a, b in pairwise(DEPTHS)]
    lowest = min(angles[ANGLES > 60].min() for angles in moved.values())
    return [
        (
            "1",
            "a ReLU network's gradient angle φ is larger than a small input angle θ",
            f"for θ up to {min(wider):.1f}° to {max(wider):.1f}°, by depth (1 to 10)",
            FORMULA,
        ),
        (
            "1",
            "deeper networks separate similar data better",
            f"every step of depth to 10 enlarges φ for θ up to {min(deeper):.1f}°",
            FORMULA,
        ),
        ("1", "φ > 60° for θ > 60°", f"the smallest such φ is {lowest:.1f}°", FORMULA),
        (
            "1",
            "with depth φ tends to a step function, 90°",
            f"it tends to arccos(1/4) = {np.degrees(np.arccos(0.25)):.1f}°",
            FORMULA,
        ),
    ]


def one_layer() -> list[tuple[str, str, str, str]]:
    """Return what the text states of Eq. (14), the angle after one layer."""
    g = np.degrees(theory.embedding_angle(np.radians(ANGLES), 1))
    grows = "at every" if (np.diff(g) > 0).all() else "not at every"
    return [
        (
            "4",
            "g is monotonic, and nearly θ for small angles",
            f"it grows {grows} hundredth of a degree; g ≥ {(g / ANGLES)[ANGLES <= 10].min():.3f} θ "
            "up to 10°",
            FORMULA,
        )
    ]


def separation() -> list[tuple[str, str, str, str]]:
    """Return what the text states of Figure 2, left."""
    table = tables.read(ROOT / "resources/fig2/angles.parquet", "angles").to_pandas()
    rows = []
    for dataset, data in table.groupby("dataset"):
        angle = data.pivot_table("min_angle", "depth", "activation")
        relu, linear = angle["relu"], angle["linear"]
        larger, rises = (relu > linear).loc[1:], (relu.diff() > 0).loc[1:]
        name, size = (
            label("dataset", dataset),
            f"all pairs, width 512, seeds: {data.seed.nunique()}",
        )
        statements = {
            "the smallest angle of a ReLU network is larger than the linear network's, at every "
            "depth": f"at {larger.sum()} of {len(larger)} depths; {relu[1]:.3g}° against "
            f"{linear[1]:.3g}° at depth 1, {relu[10]:.3g}° against {linear[10]:.3g}° at 10",
            "a deeper network has the larger smallest angle": f"in {rises.sum()} of {len(rises)} "
            f"steps, from {relu[0]:.3g}° (depth 0) to {relu[10]:.3g}° (10)",
        }
        rows += [("2", text, f"{name}: {ours}", size) for text, ours in statements.items()]
    return rows


def kappas() -> dict[str, tuple[pd.Series, pd.Series]]:
    """Return kappa by depth, of ReLU and of linear networks, means over seeds, by dataset."""
    table = tables.read(ROOT / "resources/fig2/conditioning.parquet", "conditioning").to_pandas()
    finite = table[table["kernel"] == "empirical_ntk"]
    by_dataset = {}
    for dataset, data in finite.groupby("dataset", sort=False):
        kappa = data.pivot(index="depth", columns="activation", values="kappa_mean")
        by_dataset[dataset] = kappa["relu"], kappa["linear"]
    return by_dataset


def conditioning() -> list[tuple[str, str, str, str]]:
    """Return what the text states of Figure 2, right, for each dataset that was run."""
    rows = []
    for dataset, (relu, linear) in kappas().items():
        smaller = (relu < linear).loc[1:]
        falls = (relu.diff() < 0).loc[1:]
        name = label("dataset", dataset)
        rows += [
            (
                "2",
                "κ of a ReLU network is smaller than the linear network's, at every depth",
                f"{name}: at {smaller.sum()} of {len(smaller)} depths; {relu[1]:.2g} against "
                f"{linear[1]:.2g} at depth 1, {relu[10]:.2g} against {linear[10]:.2g} at 10",
                BLOCKS,
            ),
            (
                "2",
                "κ falls monotonically with depth",
                f"{name}: in {falls.sum()} of {len(falls)} steps, from {relu[0]:.2g} (depth 0) "
                f"to {relu[10]:.2g} (10)",
                BLOCKS,
            ),
            (
                "2",
                "a linear network stays similar to the linear model",
                f"{name}: its κ rises to {linear[10] / linear[0]:.1f} times the linear model's",
                BLOCKS,
            ),
        ]
    return rows


def training() -> list[tuple[str, str, str, str]]:
    """Return what the text states of Figure 3, for each scale and dataset that was run."""
    best, _, _ = results(ROOT / "resources/fig3/published")
    scales = {"fig3": "the text's scale", "fig3_code": "the published code's scale"}
    rows = []
    for (experiment, dataset), networks in best.groupby(["experiment", "dataset"]):
        loss = networks.set_index("depth")["score"].astype(float).sort_index()
        falls = (loss.diff().dropna() < 0).sum()
        values = ", ".join(f"{value:.2g}" for value in loss)
        depths = ", ".join(map(str, loss.index))
        rows.append(
            (
                "3",
                "a deeper ReLU network always converges faster",
                f"{label('dataset', dataset)}, {scales[experiment]}: the final loss falls in "
                f"{falls} of {len(loss) - 1} steps: {values} at depths {depths}",
                f"500 epochs, width 512, seeds: {networks['seeds'].iloc[0]}",
            )
        )
    return rows
