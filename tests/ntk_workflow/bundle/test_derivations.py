"""What is made again of a bundle may differ as processors round, and in nothing else."""

from pathlib import Path

import measure_activations
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ntk_conditioning import tables
from ntk_workflow.bundle.derivations import _change, derivations, problems_of
from tests.plans import ROOT, plan_of

PAGE = '<p>kappa 12.5, n = 256</p>{"slope":[4.440892e-16,-0.5,1],"file":"fig2.png","id":"a1b2c3"}'


@pytest.mark.parametrize(
    ("given", "same"),
    [
        (PAGE, True),
        (PAGE.replace("4.440892e-16", "5.551115e-16"), True),
        (PAGE.replace("12.5,", "12.500001,"), True),
        (PAGE.replace("12.5,", "12.51,"), False),
        (PAGE.replace("n = 256", "n = 257"), False),
        (PAGE.replace("-0.5,1]", "-0.5,1.0000001]"), True),
        (PAGE.replace("fig2", "fig3"), False),
        (PAGE.replace("a1b2c3", "a1b2c4"), False),
        (PAGE.replace("kappa", "Kappa"), False),
    ],
)
def test_pages(tmp_path: Path, given: str, same: bool):
    (tmp_path / "a.html").write_text(PAGE)
    (tmp_path / "b.html").write_text(given)
    change = _change(tmp_path / "a.html", tmp_path / "b.html")
    assert change is None if same else "in line 1, where it has" in change


@pytest.mark.parametrize(("slope", "same"), [(9.1e-17, True), (1e-9, False)])
def test_noise_in_tables(tmp_path: Path, slope: float, same: bool):
    for name, value in (("a", 5.8e-17), ("b", slope)):
        table = pa.table({"layer": [1], "slope": [value]})
        pq.write_table(
            table.replace_schema_metadata({"keys": "layer"}), tmp_path / f"{name}.parquet"
        )
    change = _change(tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert change is None if same else change.startswith("give slope 1e-09, where it has 5.8e-17")


@pytest.mark.usefixtures("activation_registry")
def test_constants_beside_an_activation_of_the_users_own(tmp_path: Path):
    own = {"activation_files": [str(ROOT / "docs/examples/swish.py")]}
    plan = plan_of(own | {"activation_constants": ["relu", "swish"]})
    (of,) = (d for d in derivations(plan, with_rows=False) if "activations" in d.program)
    path = tmp_path / of.outputs["--output"]
    assert measure_activations.main(["--activation", "relu", "swish", "--output", str(path)]) == 0
    assert problems_of(tmp_path, of, measure_activations.main) == []
    rows = tables.read(path, "activations").to_pylist()
    next(row for row in rows if row["activation"] == "relu")["phase"] = "chaotic"
    tables.write(path, "activations", tables.from_rows("activations", rows))
    (line,) = problems_of(tmp_path, of, measure_activations.main)
    assert line.endswith("give phase 'critical', where it has 'chaotic', at activation relu")
