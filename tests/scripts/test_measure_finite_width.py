from itertools import product
from pathlib import Path

import fit_finite_width
import measure_finite_width
import numpy as np
import pytest

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples, save_prepared
from ntk_conditioning.kernels import infinite
from ntk_conditioning.theory.finite_width import power_law
from tests.support.trainings import to_words

X = np.random.default_rng(0).standard_normal((50, 20))
ROWS = Path("rows.parquet")


def measured(**sizes):
    save_prepared(Path("mine.npz"), PreparedSamples("mine", X, None))
    given = {"dataset": "mine", "data": "mine.npz", "activation": ("relu", "tanh"), "seeds": 1}
    assert measure_finite_width.main(to_words(given | sizes | {"threads": 1, "output": ROWS})) == 0
    return tables.read(ROWS, "finite_width").to_pylist()


def test_networks_tend_to_infinite_width():
    rows = measured(samples=(4, 9), widths=(8, 32, 64), depths=(1, 2, 4, 16), networks=60)
    measurable = {*product((8, 32, 64), (1, 2, 4, 16))} - {(8, 16)}
    assert {(row["width"], row["depth"]) for row in rows} == measurable
    for row in rows:
        assert row["low"] <= row["median"] <= row["high"]
        if row["activation"] == "tanh":
            assert row["mean"] > row["infinite"] - 3 * row["mean_error"]
        if row["depth"] == 1 and row["width"] == 64:
            assert row["mean"] == pytest.approx(row["infinite"], abs=0.35)

    assert fit_finite_width.main([f"--rows={ROWS}", "--output=laws.parquet"]) == 0
    laws = tables.read(Path("laws.parquet"), "finite_width_laws").to_pylist()
    variance = [law for law in laws if law["quantity"] == "variance"]
    assert len(variance) == 4
    for law in variance:
        assert 0.4 < law["exponent"] < 1.6
        assert law["exponent_low"] < law["exponent"] < law["exponent_high"]


def test_intervals_of_three_points_hold_the_exponent_95_times_in_100():
    rng, x = np.random.default_rng(0), [0.01, 0.03, 0.1]
    laws = [power_law(x, x * np.exp(0.1 * rng.standard_normal(3))) for _ in range(1000)]
    inside = [law["exponent_low"] < 1 < law["exponent_high"] for law in laws]
    assert 0.93 < np.mean(inside) < 0.97


def test_infinite_width_is_that_of_the_samples():
    row = measured(samples=50, widths=1, depths=1, networks=60)[0]
    x = X / np.linalg.norm(X, axis=1)[:, None]
    kernel = infinite.InfiniteNetwork(x, depth=1, activation=row["activation"]).ntk
    assert row["infinite"] == pytest.approx(np.log(np.linalg.cond(kernel)), rel=1e-9)
    assert row["resolved"] == 0  # a single unit
    assert row["mean"] is None
