"""What deep networks on part of CIFAR-10 came to, for docs/agarwal2021deep.md."""

from pathlib import Path

import pandas as pd

from docs.build.marked import markdown_table
from ntk_conditioning.files import sha256

ROOT = Path(__file__).parents[2]
CURVES = ROOT / "resources/cifar10_part"
FITTED = 0.99


def in_markdown() -> str:
    """Return where the networks begin and end, as a table."""
    head = ["network, depth 32", "rate", f"epochs to a training accuracy of {FITTED}"]
    head += ["final loss", "test accuracy", "mean dot product: before", "after"]
    cells = []
    for path in sorted(CURVES.glob("training/**/*.parquet")):
        curves = pd.read_parquet(path)
        first, last = curves.iloc[0], curves.iloc[-1]
        network = f"`{first['model']}`, {first['activation']}, width {first['width']}"
        row = [network, f"{first['learning_rate']:g}"]
        if last["diverged"]:
            lost = curves.loc[curves["diverged"], "epoch"].min()
            row += [f"diverged by epoch {lost}", "–", "–", f"{first['test_dot_product']:.2f}", "–"]
        else:
            fitted = curves.loc[curves["train_accuracy"] >= FITTED, "epoch"].min()
            row += [str(fitted), f"{last['train_loss']:.5f}", f"{last['test_accuracy']:.3f}"]
            row += [f"{each['test_dot_product']:.2f}" for each in (first, last)]
        cells.append([*row, f"`{sha256(path)[:16]}`"])
    return markdown_table([*head, "sha256 of the curves"], cells)
