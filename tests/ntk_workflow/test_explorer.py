"""What the explorer shows of a run's tables."""

from itertools import pairwise

import pandas as pd

from ntk_conditioning.training.curves import POINT_KEYS
from ntk_workflow.explorer.data import training


def test_curves_of_other_lengths_are_thinned_evenly_to_their_ends():
    names = dict.fromkeys(POINT_KEYS, "a") | {"depth": 1, "seed": 1, "relative_rate": 1.0}
    curves = [pd.DataFrame({"epoch": range(0, end + 1, 5)}) for end in (500, 2000)]
    table = pd.concat(curve.assign(**names | {"dataset": str(len(curve))}) for curve in curves)
    shown = training({"training": table.assign(train_loss=1.0)})
    for name, rows in shown.groupby("dataset"):
        epochs = sorted(rows["epoch"])
        assert (epochs[0], epochs[-1]) == (0, 5 * (int(name) - 1))
        assert len(epochs) >= 40
        assert max(b - a for a, b in pairwise(epochs)) <= epochs[-1] / 40
