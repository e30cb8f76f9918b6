"""The bundle of the smallest full run: what makes it, what it says, and how it is verified."""

import getpass
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import requests_cache
import verify_bundle
import yaml
from PIL import Image, ImageOps
from requests_cache import CachedRequest, CachedResponse
from rocrate_validator import services

from ntk_conditioning import tables
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import sha256
from ntk_workflow.bundle import archive, crate, signatures, verification
from tests.support.clone import ROOT, Clone, job_counts
from tests.workflow.conftest import CI, FEW, SMALL

pytestmark = pytest.mark.slow

BUNDLE = "results/ci/bundle/ci.zip"
CONTEXTS = {
    "https://w3id.org/ro/crate/1.1/context": "ro-crate-1.1-context.jsonld",
    "https://w3id.org/ro/terms/workflow-run/context": "workflow-run-context.json",
}


@pytest.fixture(scope="module")
def bundled(finished: Clone, tmp_path_factory) -> Clone:
    """A copy of the finished clone with a bundle; do not change it."""
    copy = finished.copy(tmp_path_factory.mktemp("bundled") / "clone")
    jobs = job_counts(copy.run("bundle", "--cores", "2", *CI))
    assert jobs == Counter(bundle_run=1, bundle=1)
    return copy


@pytest.fixture(scope="module")
def unpacked(bundled: Clone, tmp_path_factory) -> Path:
    return archive.unpack(bundled.folder / BUNDLE, tmp_path_factory.mktemp("parts") / "unpacked")


@pytest.fixture(scope="module")
def config(unpacked: Path) -> dict[str, Any]:
    return verification.verify(unpacked)[0]


@pytest.fixture(scope="module")
def made_again(unpacked: Path, config, tmp_path_factory) -> Path:
    """The results that the bundle's rows give, with one of the figures."""
    one = config | {"figures": FEW[2:3]}
    return verification.make_again(unpacked, one, tmp_path_factory.mktemp("again"))


def crate_issues(folder: Path, scratch: Path) -> list[str]:
    """Return what a workflow run crate must have and a crate has not, without a network."""
    cache = scratch / "contexts"  # which the validator reads
    facts = {"headers": {"Content-Type": "application/ld+json"}, "status_code": 200}
    with requests_cache.CachedSession(str(cache), backend="sqlite") as session:
        for address, name in CONTEXTS.items():
            facts |= {"url": address, "request": CachedRequest(method="GET", url=address)}
            content = (ROOT / "tests/data/ro-crate" / name).read_bytes()
            session.cache.save_response(CachedResponse(content=content, **facts))
    profile = {"profile_identifier": "workflow-run-crate-0.5", "requirement_severity": "REQUIRED"}
    offline = {"offline": True, "cache_path": cache, "cache_max_age": -1}
    settings = services.ValidationSettings(rocrate_uri=str(folder), **profile, **offline)
    return [issue.message for issue in services.validate(settings).get_issues()]


def assert_not_named(places: list[str], folder: Path) -> None:
    """No file of an unpacked bundle has the path of a folder."""
    for path in archive.files_by_name(folder).values():
        content = path.read_bytes()
        assert not [place for place in places if f"{place}/".encode() in content], path


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph:DeprecationWarning")  # of rdflib, to itself
def test_a_bundle_is_a_workflow_run_crate_that_names_nobody(bundled, unpacked: Path, tmp_path):
    folder = unpacked.parents[1]
    assert crate_issues(folder, tmp_path) == []
    recorded = json.loads(text := (unpacked / "record/jobs.json").read_text())
    for job in recorded["jobs"]:
        assert {"code", "start", "end"} <= job.keys() or job["rule"] == "render_figure"
    trained = next(job for job in recorded["jobs"] if job["rule"] == "train_network")
    assert trained["device"] == "cpu"
    assert "results/ci/datasets/digits/all.npz" in trained["inputs"]
    claims = unpacked / "tables/claims.parquet"
    known = {"sha256": sha256(claims), "bytes": claims.stat().st_size}
    assert recorded["files"]["results/ci/tables/claims.parquet"] == known
    last = max(job["end"] for job in recorded["jobs"] if "end" in job)
    assert f"Bagging-Date: {last[:10]}\n" in (folder.parent / "bag-info.txt").read_text()
    assert_not_named([str(bundled.folder), sys.prefix, str(Path.home())], folder.parent)
    assert f'"{getpass.getuser()}"' not in text
    assert f'"{socket.gethostname()}"' not in text
    shutil.copytree(folder, tmp_path / "changed")
    (tmp_path / "changed/CITATION.cff").write_text("another")
    with pytest.raises(UserError, match=r"CITATION\.cff: missing, or not as the RO-Crate"):
        crate.require_crate(tmp_path / "changed")


def test_the_crate_says_where_data_are(unpacked: Path, tmp_path: Path):
    urls = ["https://example.org/a.gz", "https://mirror.example.org/a.gz"]
    files = {"train": {"name": "a.gz", "urls": urls, "sha256": "0" * 64, "bytes": 12}}
    folder = shutil.copytree(unpacked.parents[1], tmp_path / "ci")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    facts = {"citation": citation, "times": ["2026-01-02"], "results": []}
    crate.write(folder, "ci", **facts, data={"drawn": {"title": "Drawn", "files": files}})
    graph = json.loads((folder / crate.NAME).read_text())["@graph"]
    (file,) = [entity for entity in graph if entity["@id"] == urls[0]]
    assert (file["sha256"], file["sameAs"]) == ("0" * 64, urls[1:])


def test_bundling_again_follows_what_is_in_it_and_has_the_same_bytes(
    bundled: Clone, tmp_path, monkeypatch
):
    copy = bundled.copy(tmp_path / "elsewhere")
    for path in copy.folder.rglob("*"):
        os.utime(path, (1e9, 1e9), follow_symlinks=False)
    assert copy.plan("bundle", *CI) == Counter()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    (copy.folder / BUNDLE).unlink()
    copy.run("bundle", "--cores", "2", *CI)
    assert (copy.folder / BUNDLE).read_bytes() == (bundled.folder / BUNDLE).read_bytes()
    names = zipfile.ZipFile(copy.folder / BUNDLE).namelist()
    assert names == sorted(names)
    copy.edit("README.md", "# ntk-conditioning", "# NTK conditioning")
    assert copy.plan("bundle", *CI) == Counter(bundle_run=1, bundle=1)


def test_the_rows_give_all_that_follows_from_them(unpacked: Path, made_again: Path):
    names = verification.derived_files(made_again)
    others = tuple(f"figures/{name}" for name in FEW if name != FEW[2])
    assert {n for n in verification.derived_files(unpacked) if not n.startswith(others)} == names
    assert verification.differences(names, unpacked, made_again, same_software=True) == []


def change_number(path: Path) -> bool:
    """Change one number of a table by a hundredth, or one on a page; return whether it has any."""
    if path.suffix != ".parquet":
        text = path.read_text(encoding="utf-8")
        changed = re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]) + 1:g}", text, count=1)
        path.write_text(changed, encoding="utf-8")
        return changed != text
    data = pq.read_table(path)
    table = tables.get(data.schema.metadata[b"table"].decode())
    rows = data.to_pylist()
    for row in rows:
        for name, value in row.items():
            if isinstance(value, float) and math.isfinite(value) and name not in table.keys:
                row[name] = value * 1.01 + 1e-6
                tables.write(path, table, rows)
                return True
    return False


def test_one_number_that_is_changed_in_any_derived_table_or_page_is_refused(
    unpacked: Path, made_again: Path, tmp_path: Path
):
    names = verification.derived_files(unpacked) - {*verification.WHOLE}
    changed = []
    for name in sorted(names):
        if name.startswith("tables/") or name in verification.PAGES:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(unpacked / name, tmp_path / name)
            if change_number(tmp_path / name):  # others are tables without rows
                changed.append(name)
    assert {*verification.PAGES} <= {*changed}
    assert len(changed) > 20
    lines = verification.differences({*changed}, tmp_path, made_again, same_software=True)
    assert [line.split(":")[0] for line in lines] == changed


def test_another_picture_is_refused_where_the_software_is_the_same(unpacked, made_again, tmp_path):
    names = sorted(name for name in verification.derived_files(made_again) if name[-4:] == ".png")
    (tmp_path / names[0]).parent.mkdir(parents=True)
    with Image.open(unpacked / names[0]) as picture:
        picture.putpixel((9, 9), (1, 2, 3, 255))
        ImageOps.expand(picture.crop((4, 4, *picture.size)), 2, "red").save(tmp_path / names[0])
    for same, lines in ((True, 1), (False, 0)):
        found = verification.differences({names[0]}, tmp_path, made_again, same_software=same)
        assert len(found) == lines


def test_rows_are_computed_again_from_the_data(bundled: Clone, unpacked, config, tmp_path: Path):
    mirror = str(bundled.folder / "data")
    said = verification.recompute(unpacked, config, 3, mirror, tmp_path)
    assert said.startswith("3 of ")
    assert "with a probability of" in said
    own = config | {"activation_files": ["mine.py"]}
    with pytest.raises(UserError, match=r"needs mine\.py, and verification runs no Python"):
        verification.recompute(unpacked, own, 1, mirror, tmp_path / "own")


def test_a_bundle_that_was_signed_by_somebody_else_is_refused(bundled, tmp_path, capsys):
    path = Path(shutil.copy(bundled.folder / BUNDLE, tmp_path))
    for name in ("alice", "bob"):
        new = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", tmp_path / name]
        subprocess.run(new, check=True)
        public = (tmp_path / f"{name}.pub").read_text()
        (tmp_path / f"{name}.signers").write_text(f"{name}@example.org {public}")

    def assert_verified(status: int, words: str, signers: str = "alice.signers") -> None:
        assert verify_bundle.main([str(path), "--signers", str(tmp_path / signers)]) == status
        assert words in capsys.readouterr().err

    assert_verified(2, "not signed")
    sign = ["ssh-keygen", "-q", "-Y", "sign", "-n", signatures.NAMESPACE, "-f", tmp_path / "alice"]
    subprocess.run([*sign, path], check=True)
    assert_verified(0, "signed by alice@example.org (SHA256:")
    assert_verified(2, "by none of the keys", "bob.signers")
    path.write_bytes(path.read_bytes() + b"x")
    assert_verified(2, "is no signature of it by alice")


def test_a_recorded_config_that_no_run_has_is_refused(config, tmp_path):
    record = tmp_path / "results/ci/record/config.yaml"
    record.parent.mkdir(parents=True)
    changes = {"run is not ci": {"run": "other"}, "seeds: 'many'": {"seeds": "many"}}
    for message, change in changes.items():
        record.write_text(yaml.safe_dump(config | change))
        with pytest.raises(UserError, match=message):
            verification.verify(tmp_path / "results/ci")


def test_without_rows_nothing_is_computed_again(tmp_path):
    with pytest.raises(UserError, match="it has no rows"):
        verification.recompute(tmp_path, {}, 3, "data", tmp_path / "again")


def test_a_run_of_its_authors_own_data_is_made_again_without_them(tmp_path: Path, capfd):
    content = sha256(shutil.copyfile(ROOT / "docs/examples/wine.csv", tmp_path / "secret.csv"))
    entry = yaml.safe_load((ROOT / "docs/examples/own_catalogue.yaml").read_text())["wine"]
    entries = {"here": entry | {"path": "secret.csv"}}
    entries["elsewhere"] = entry | {"path": str(tmp_path / "secret.csv")}
    catalogues = ["datasets.yaml", "here.yaml", str(tmp_path / "elsewhere.yaml")]
    for name, one in entries.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({name: one}))
    small = {"datasets": [*entries], "catalogues": catalogues, "figures": []}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL | small | {"run": "small"}))
    clone, command = Clone(tmp_path), ("bundle", "--configfile", "small.yaml", "--cores", "2")
    clone.run(*command, "--snakefile", str(ROOT / "Snakefile"))
    (tmp_path / "secret.csv").unlink()
    bundle = str(tmp_path / "results/small/bundle/small.zip")
    unpacked = archive.unpack(Path(bundle), tmp_path / "unpacked").parents[1]
    assert_not_named([str(tmp_path)], unpacked)
    assert content in (unpacked / crate.NAME).read_text()
    assert not [*unpacked.rglob("*.npz")]  # nor is a sample in it
    assert verify_bundle.main([bundle, "--rerun"]) == 0
    assert verify_bundle.main([bundle, "--recompute", "20"]) == 2
    assert "…/secret.csv does not exist" in capfd.readouterr().err
