"""A payload in each kind of input is never executed: it would leave a file where it ran.

What may run is an activation's, a network's or a notebook's own file: SECURITY.md. Expressions of
"""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ntk_conditioning.data.readers.cifar import read_cifar10
from ntk_conditioning.data.readers.tables import read_npz
from ntk_conditioning.errors import UserError
from ntk_workflow import config
from ntk_workflow.claims import papers
from ntk_workflow.pages.rendering import table_page
from tests.plans import plan_of
from tests.support.clone import ROOT

TAGS = [
    "!!python/object/apply:os.system ['touch planted']",
    "!!python/object/new:subprocess.check_output [[touch, planted]]",
    "!!python/name:os.system",
    "!!python/module:planted",
]


class Payload:
    """What unpickling would run."""

    def __reduce__(self):
        return Path.touch, (Path("planted"),)


@pytest.fixture(autouse=True)
def nothing_is_planted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.rglob("*planted*")) == []


def test_the_payload_would_be_noticed(tmp_path):
    pickle.loads(pickle.dumps(Payload()))
    (tmp_path / "planted").unlink()


@pytest.mark.parametrize("tag", TAGS)
def test_yaml_makes_no_objects(tag, tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text(f"run: {tag}\n")
    assert config.main([str(file)]) == 2
    assert "mine.yaml" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"mine\.yaml"):
        plan_of({"catalogues": [str(ROOT / "datasets.yaml"), str(file)]})
    (tmp_path / "papers").mkdir()
    file.rename(tmp_path / "papers/mine.yaml")
    with pytest.raises(ValueError, match=r"mine\.yaml"):
        papers.read(["mine"], folder="papers", tables=["spectra"])


def test_a_config_whose_expressions_snakemake_would_run_is_refused_before(tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text("__use_yte__: true\nrun: ?open('planted', 'w')\n")
    assert config.main([str(tmp_path / "mine.yaml")]) == 2
    assert "mine.yaml: __use_yte__" in capsys.readouterr().err


def test_no_data_file_is_unpickled(tmp_path):
    objects = np.array([Payload()], dtype=object)
    np.savez(tmp_path / "mine.npz", x=objects)
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (folder / name).write_bytes(pickle.dumps(Payload()))
    for read in (lambda: read_npz(tmp_path / "mine.npz"), lambda: read_cifar10(folder)):
        with pytest.raises(UserError):
            read()


def test_pages_show_texts_and_run_none(tmp_path):
    text = "<script>fetch('planted')</script><img src=x onerror=planted()>"
    page = table_page(pa.table({"title": [text]}), title=text, note=text)
    assert "<script>fetch" not in page
    assert "<img" not in page
