"""Programs for the table of bounds: the same bytes twice, mistakes in one line."""

from __future__ import annotations

from pathlib import Path

import aggregate_bounds
import compute_bounds
import numpy as np
import pytest

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples, save_prepared
from ntk_conditioning.tables.bounds import BOUNDS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """30 samples with 8 features, on the unit sphere."""
    path = tmp_path / "all.npz"
    x = np.random.default_rng(0).standard_normal((30, 8))
    save_prepared(path, PreparedSamples("tiny", x, None, "unit_norm"))
    return path


def compute(archive: Path, folder: str, **options: str) -> int:
    outputs = [str(archive.parent / folder / f"tiny/{name}.parquet") for name in ("erf", "relu")]
    given = {"data": str(archive), "dataset": "tiny", "samples": "10"} | options
    arguments = [f"--{name}={value}" for name, value in given.items()]
    arguments += ["--activations", "erf", "relu", "--depths", "1", "4", "--outputs", *outputs]
    return compute_bounds.main(arguments)


def test_cells_of_all_activations_make_the_table(data, tmp_path):
    assert [compute(data, folder) for folder in ("one", "two")] == [0, 0]
    written = []
    for folder in ("one", "two"):
        output = tmp_path / f"{folder}.parquet"
        call = [f"--cells={tmp_path / folder}", f"--output={output}", "--datasets", "tiny"]
        assert aggregate_bounds.main([*call, "--activations", "relu", "erf"]) == 0
        written.append(output.read_bytes())
    assert written[0] == written[1]
    found = tables.read(tmp_path / "one.parquet", BOUNDS).to_pandas()
    assert len(found) == 2 * 2 * 2  # activations, kernels, depths
    assert set(found["n"]) == {10}
    assert found.query("activation == 'erf'")["l_0"].notna().all()
    assert found.query("activation == 'relu'")["l_0"].isna().all()


def test_another_seed_draws_other_samples(data, tmp_path):
    assert compute(data, "one", seed="1") == compute(data, "two", seed="2") == 0
    first, second = (
        tables.read(tmp_path / folder / "tiny/erf.parquet", BOUNDS)["delta_a"][0].as_py()
        for folder in ("one", "two")
    )
    assert first != second


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"samples": "31"}, "larger than the dataset's 30 samples"),
        ({"samples": "0"}, "0 is not above zero"),
        ({"data": "absent.npz"}, "absent.npz does not exist"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(data, capsys, options, told):
    assert compute(data, "one", **options) == 2
    lines = capsys.readouterr().err.splitlines()
    assert told in lines[-1]
    assert sum("error" in line for line in lines) == 1
    assert not list(data.parent.glob("one/**/*.parquet"))
