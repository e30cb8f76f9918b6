"""The bundle of the smallest full run: what makes it, what it says, and how it is verified."""

import getpass
import json
import math
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import verify_bundle
import yaml

from ntk_conditioning import tables
from ntk_conditioning.tables import TABLES
from ntk_workflow.bundle import BundleError, archive, crate, signatures, verification
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
    return archive.unpack(bundled.folder / BUNDLE, tmp_path_factory.mktemp("unpacked"))


@pytest.fixture(scope="module")
def made_again(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results that the bundle's rows give."""
    bundle = verification.verify(unpacked)
    return verification.make_again(bundle, tmp_path_factory.mktemp("again"))


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph:DeprecationWarning")  # of rdflib, to itself
def test_a_bundle_is_a_workflow_run_crate_of_every_job(bundled, unpacked, tmp_path):
    payload = unpacked / "data"
    assert crate_issues(payload, tmp_path) == []
    broken = shutil.copytree(payload, tmp_path / "broken") / crate.NAME
    metadata = json.loads(broken.read_text())
    del next(each for each in metadata["@graph"] if each["@id"] == "#run")["instrument"]
    broken.write_text(json.dumps(metadata))
    assert any("instrument" in message for message in crate_issues(broken.parent, tmp_path))
    jobs = json.loads((payload / "results/ci/record/jobs.json").read_text())["jobs"]
    for job in jobs:
        assert {"code", "start", "end", "host"} <= job.keys() or job["rule"] == "render_figure"
    train = next(job for job in jobs if job["rule"] == "train_network")
    assert (train["device"], train["dtype"]) == ("cpu", "float32")


def test_nobody_and_no_place_is_named(bundled: Clone, unpacked: Path):
    private = [str(bundled.folder), sys.prefix, str(Path.home())]
    for path in archive.files_by_name(unpacked).values():
        content = path.read_bytes()
        assert not [word for word in private if f"{word}/".encode() in content], path
    text = (unpacked / "data/results/ci/record/jobs.json").read_text()
    assert f'"{getpass.getuser()}"' not in text
    assert f'"{socket.gethostname()}"' not in text


def test_bundling_again_follows_what_is_in_it(bundled: Clone, tmp_path: Path):
    copy = Clone.at(tmp_path / "elsewhere")
    shutil.copytree(bundled.folder, copy.folder, symlinks=True)
    (copy.folder / "README.md").touch()
    assert copy.plan("bundle", *CI) == Counter()
    copy.edit("README.md", "# ntk-conditioning", "# NTK conditioning")
    assert copy.plan("bundle", *CI) == Counter(bundle_run=1, bundle=1)


def test_the_rows_give_all_that_follows_from_them(bundled: Clone, unpacked: Path, made_again: Path):
    assert verify_bundle.main([str(bundled.folder / BUNDLE)]) == 0
    results = unpacked / "data/results/ci"
    names = verification.derived_files(results)
    assert names == verification.derived_files(made_again)
    assert verification.differences(names, results, made_again, same_lock=True) == []


def change_number(path: Path) -> bool:
    """Change one number of a table by a hundredth, or one on a page; return whether it has any."""
    if path.suffix != ".parquet":
        text = path.read_text(encoding="utf-8")
        number = next(re.finditer(r"\d+\.\d+", text))
        changed = f"{text[: number.start()]}{float(number[0]) + 1:g}{text[number.end() :]}"
        path.write_text(changed, encoding="utf-8")
        return True
    data = pq.read_table(path)
    table = TABLES[data.schema.metadata[b"table"].decode()]
    rows = data.to_pylist()
    for row in rows:
        for name, value in row.items():
            if isinstance(value, float) and math.isfinite(value) and name not in table.keys:
                row[name] = value * 1.01 + 1e-6
                tables.write(path, table, tables.from_rows(table, rows))
                return True
    return False


def test_one_number_that_is_changed_in_any_derived_table_or_page_is_refused(
    unpacked: Path, made_again: Path, tmp_path: Path
):
    results = unpacked / "data/results/ci"
    taken = {f"tables/{name}.parquet" for name in verification.WITHOUT_ROWS}
    names = verification.derived_files(results) - taken
    changed = [n for n in sorted(names) if n.startswith("tables/") or n in verification.PAGES]
    forged = tmp_path / "ci"
    for name in [*changed]:
        (forged / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(results / name, forged / name)
        if not change_number(forged / name):  # a table without rows
            changed.remove(name)
    assert len(changed) > 20
    lines = verification.differences({*changed}, forged, made_again, same_lock=True)
    assert [line.split(":")[0] for line in lines] == changed


def test_rows_are_computed_again_from_the_data(bundled: Clone, unpacked: Path, tmp_path: Path):
    bundle, mirror = verification.verify(unpacked), str(bundled.folder / "data")
    said = verification.recompute(bundle, 3, mirror=mirror, scratch=tmp_path)
    assert said.startswith("3 of ")
    assert "with a probability of" in said
    own = verification.Bundle(**{**vars(bundle), "own": ("mine.py",)})
    with pytest.raises(BundleError, match=r"needs mine\.py, and verification runs no Python"):
        verification.recompute(own, 1, mirror=mirror, scratch=tmp_path / "own")


def test_a_changed_byte_a_cut_and_a_path_that_leaves_are_refused(
    bundled: Clone, unpacked: Path, tmp_path: Path, capsys
):
    whole = (bundled.folder / BUNDLE).read_bytes()
    bad = tmp_path / "bad.zip"
    place = whole.index(b"# ntk-conditioning")
    for content, message in (
        (whole[: len(whole) // 2], "damaged, cut off or no zip archive"),
        (whole[:place] + b"@" + whole[place + 1 :], "damaged, cut off or no zip archive (Bad CRC"),
    ):
        bad.write_bytes(content)
        assert verify_bundle.main([str(bad)]) == 2
        assert message in capsys.readouterr().err.splitlines()[-1]
    with zipfile.ZipFile(bad, "w") as opened:
        opened.writestr("../outside", "x")
    assert verify_bundle.main([str(bad)]) == 2
    assert "leaves the archive's folder; nothing was unpacked" in capsys.readouterr().err
    changed = shutil.copytree(unpacked, tmp_path / "changed" / "ci")
    (changed / "data/README.md").write_text("another\n")
    archive.pack(changed, bad)
    assert verify_bundle.main([str(bad)]) == 2
    assert "bag is damaged" in capsys.readouterr().err


def test_a_bundle_that_was_signed_by_somebody_else_is_refused(bundled, tmp_path, capsys):
    path = Path(shutil.copy(bundled.folder / BUNDLE, tmp_path))
    keys = {name: tmp_path / name for name in ("alice", "bob")}
    for name, key in keys.items():
        new = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)]
        subprocess.run(new, check=True)
        public = key.with_suffix(".pub").read_text()
        (tmp_path / f"{name}.signers").write_text(f"{name}@example.org {public}")
    assert verify_bundle.main([str(path), "--signers", str(tmp_path / "alice.signers")]) == 2
    assert "not signed" in capsys.readouterr().err
    sign = ["ssh-keygen", "-q", "-Y", "sign", "-n", signatures.NAMESPACE, "-f", str(keys["alice"])]
    subprocess.run([*sign, str(path)], check=True)
    assert verify_bundle.main([str(path), "--signers", str(tmp_path / "alice.signers")]) == 0
    assert "signed by alice@example.org (SHA256:" in capsys.readouterr().err
    assert verify_bundle.main([str(path), "--signers", str(tmp_path / "bob.signers")]) == 2
    assert "by none of the keys" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": "other"}, "run is 'other', and its folder results/ci"),
        ({"seeds": "many"}, "seeds"),
        ({"catalogues": ["../../etc/passwd"]}, "the bundle no such file"),
    ],
)
def test_a_recorded_config_that_no_run_has_is_refused(unpacked, tmp_path, change, message):
    record = tmp_path / "results/ci/record/config.yaml"
    record.parent.mkdir(parents=True)
    config = yaml.safe_load((unpacked / "data/results/ci/record/config.yaml").read_text())
    shutil.copytree(unpacked / "data/workflow", tmp_path / "workflow")
    record.write_text(yaml.safe_dump(config | change))
    with pytest.raises(BundleError, match=message):
        verification.recorded_config(tmp_path, "ci")
