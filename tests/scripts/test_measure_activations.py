"""The table of activations: a row each and normalised, the same bytes twice, one's own too."""

import math
from pathlib import Path

import measure_activations
import numpy as np
import pytest

from ntk_conditioning import tables
from ntk_conditioning.tables.activations import ACTIVATIONS

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/swish.py"


@pytest.mark.usefixtures("activation_registry")
def test_every_activation_has_a_row_as_it_is_and_normalised(tmp_path):
    paths = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    names = ("relu", "normrelu", "normalized_gelu", "swish")
    for path in paths:
        options = ["--activations", *names, f"--activation-file={EXAMPLE}", f"--output={path}"]
        assert measure_activations.main(options) == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()
    rows = tables.read(paths[0], ACTIVATIONS).to_pandas().set_index("activation")
    assert set(rows.index) == {*names, *(f"normalized_{name}" for name in names if "_" not in name)}
    relu, normal = rows.loc["relu"], rows.loc["normalized_relu"]
    assert relu["mean"] == pytest.approx(1 / math.sqrt(2 * math.pi))
    assert relu["deviation"] == pytest.approx(math.sqrt((1 - 1 / math.pi) / 2))
    # both kinds of μ, the fixed point and the slope there are those of agarwal2021deep
    assert relu["non_linearity"] == pytest.approx((math.pi - 2) / (2 * math.pi - 2), abs=1e-14)
    assert relu["non_affinity"] == pytest.approx(1 / 2 - 1 / math.pi, abs=1e-14)
    assert (relu["fixed_point"], relu["slope_at_fixed_point"]) == (1, pytest.approx(1))
    assert (normal["fixed_point"], normal["normalized"], normal["base"]) == (0, True, "relu")
    assert normal["slope_at_fixed_point"] == pytest.approx(1 - relu["non_linearity"], abs=1e-13)
    assert rows.loc["normrelu", "scale"] == pytest.approx(1.05, abs=5e-5)
    assert rows["scale"].notna().equals(rows["base"] == "normrelu")
    squares = np.stack(rows["coefficients"]) ** 2
    np.testing.assert_allclose(squares.sum(axis=1) + rows["tail"], 1, atol=1e-13)
    np.testing.assert_allclose(squares[:, 1], rows["a_1"] ** 2)
    assert rows.filter(like="_error").to_numpy().max() < 1e-12
