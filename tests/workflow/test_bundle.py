"""The bundle of the smallest full run: what makes it, what it says, and its bytes."""

import getpass
import json
import random
import shutil
import socket
import sys
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import verify_bundle

from ntk_conditioning import tables
from ntk_conditioning.tables import TABLES
from ntk_workflow.bundle import BundleError, archive, crate, rerender
from ntk_workflow.bundle.recomputation import require_recomputed, row_tables
from ntk_workflow.bundle.recorded import recorded_plan
from tests.crates import crate_issues
from tests.support.clone import Clone, job_counts
from tests.workflow.conftest import CI

pytestmark = pytest.mark.slow

BUNDLE = "results/ci/bundle/ci.zip"


@pytest.fixture(scope="module")
def bundled(finished: Clone, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A copy of the finished clone with a bundle; do not change it."""
    copy = Clone.at(tmp_path_factory.mktemp("bundled") / "clone")
    shutil.copytree(finished.folder, copy.folder, symlinks=True)
    done = copy.run("bundle", "--cores", "2", *CI)
    assert job_counts(done.stderr) == Counter(record_jobs=1, bundle_run=1, bundle=1)
    return copy


@pytest.fixture(scope="module")
def unpacked(bundled: Clone, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(bundled.folder / BUNDLE) as opened:
        opened.extractall(folder)
    return folder / "ci" / "data"


def test_a_bundle_alone_makes_everything(clone: Clone, finished: Clone):
    planned = clone.plan("bundle", *CI)
    log, *_ = finished.files(".snakemake/log/*")  # the first: later tests look at the run
    everything = job_counts(log.read_text())
    assert planned - everything == Counter(record_jobs=1, bundle_run=1, bundle=1)
    assert everything - planned == Counter(render_page=4)  # of the report, which is not in it


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph:DeprecationWarning")  # of rdflib, to itself
def test_a_bundle_is_a_workflow_run_crate_of_every_job(bundled, unpacked, tmp_path):
    assert crate_issues(unpacked, tmp_path) == []
    broken = shutil.copytree(unpacked, tmp_path / "broken") / crate.NAME
    metadata = json.loads(broken.read_text())
    del next(each for each in metadata["@graph"] if each["@id"] == "#run")["instrument"]
    broken.write_text(json.dumps(metadata))
    assert any("instrument" in message for message in crate_issues(broken.parent, tmp_path))
    jobs = json.loads((unpacked / "results/ci/record/jobs.json").read_text())["jobs"]
    recorded = {name for job in jobs for name in job["outputs"]}
    made = {str(path.relative_to(bundled.folder)) for path in bundled.files("results/ci/**/*")}
    left_out = ("checkpoints/", "bundle/", "pages/", "record/jobs.json")
    missing = {name for name in made - recorded if not name[11:].startswith(left_out)}
    assert missing == {"results/ci/features/librispeech_sample.parquet"}  # an index nobody reads
    for job in jobs:
        assert {"code", "start", "end", "host"} <= job.keys() or job["rule"] == "render_figure"
    train = next(job for job in jobs if job["rule"] == "train_network")
    assert (train["device"], train["dtype"]) == ("cpu", "float32")
    assert train["place"] == "deep_fc/digits"  # experiment and dataset


def test_nobody_and_no_place_is_named(bundled: Clone, unpacked: Path):
    private = [str(bundled.folder), sys.prefix, str(Path.home())]
    for path in archive.files_by_name(unpacked).values():
        content = path.read_bytes()
        assert not [word for word in private if f"{word}/".encode() in content], path
    text = (unpacked / "results/ci/record/jobs.json").read_text()
    assert f'"{getpass.getuser()}"' not in text
    assert f'"{socket.gethostname()}"' not in text


def test_bundling_again_follows_what_is_in_it(bundled: Clone, tmp_path: Path):
    copy = Clone.at(tmp_path / "elsewhere")
    shutil.copytree(bundled.folder, copy.folder, symlinks=True)
    (copy.folder / "README.md").touch()
    assert copy.plan("bundle", *CI) == Counter()
    copy.edit("README.md", "# ntk-conditioning", "# NTK conditioning")
    assert copy.plan("bundle", *CI) == Counter(bundle_run=1, bundle=1)
    copy.run("bundle", "--cores", "2", *CI, "--config", "bundle={include_rows: true}")
    with zipfile.ZipFile(copy.folder / BUNDLE) as opened:
        rows = [name for name in opened.namelist() if "/results/ci/spectra/" in name]
    assert len(rows) == len(bundled.files("results/ci/spectra/**/*.parquet"))
    assert verify_bundle.main([str(copy.folder / BUNDLE)]) == 0


def test_a_figure_is_drawn_again_from_the_tables_alone(unpacked: Path, tmp_path: Path):
    figure, results = "liu2023relu/fig2_conditioning_vs_depth", tmp_path / "data/results/ci"
    shutil.copytree(unpacked, tmp_path / "data")
    for path in archive.files_by_name(results / "figures").values():
        if path.stem != Path(figure).name:
            path.unlink()
    assert rerender.require_same_figures(tmp_path / "data", "ci") == 1
    rows = tables.read(results / "tables/conditioning.parquet", "conditioning").to_pylist()
    drawn = (row for row in rows if row["kernel"] == "empirical_ntk" and row["kappa_mean"])
    next(drawn)["kappa_mean"] *= 1.01
    table = tables.from_rows("conditioning", rows)
    tables.write(results / "tables/conditioning.parquet", "conditioning", table)
    with pytest.raises(BundleError, match=f"{figure}: comes out different"):
        rerender.require_same_figures(tmp_path / "data", "ci")


def test_raw_numbers_are_compared_with_those_of_jobs_that_run_again(bundled, unpacked, tmp_path):
    plan = recorded_plan(unpacked, "ci")
    mirror = str(bundled.folder / "data")
    said = require_recomputed(unpacked, plan, 3, mirror=mirror, rng=random.Random(2))
    assert "files of rows made again by their jobs: 3 the same to the last bit" in said
    forged = shutil.copytree(unpacked, tmp_path / "forged")
    for path in {table for _, table in row_tables(plan)}:  # whichever are drawn
        data = pq.read_table(forged / path)
        kinds = {name: data.schema.field(name).type for name in data.schema.names}
        table = TABLES[data.schema.metadata[b"table"].decode()]
        name = next(n for n in kinds if kinds[n] == pa.float64() and n not in table.keys)
        column = pc.add(data[name], 0.125)
        data = data.set_column(data.schema.get_field_index(name), data.schema.field(name), column)
        tables.write(forged / path, table, data)
    with pytest.raises(BundleError, match="when its job was run again"):
        require_recomputed(forged, plan, 3, mirror=mirror, rng=random.Random(2))
    own = replace(plan, config={**plan.config, "activation_files": ["mine.py"]})
    with pytest.raises(
        BundleError, match=r"^its run needs mine\.py, and verification runs no Pyth"
    ):
        require_recomputed(unpacked, own, 3, mirror=mirror, rng=random.Random(2))
