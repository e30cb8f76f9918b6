"""What users type works: targets, overlays, mirrors, data and activations of their own."""

import hashlib
import json
from collections import Counter
from itertools import product

import compute_spectrum
import numpy as np
import pytest
from pypdf import PdfReader

from ntk_workflow.config import read_yaml
from ntk_workflow.plan import figures
from tests.ntk_conditioning.data.speech.corpora import SUBSET, make_tar, make_tree
from tests.support.clone import ROOT, Clone, job_counts
from tests.support.runs import mistakes_of, run_of
from tests.support.sources import idx_entry
from tests.workflow.conftest import CI, FEW

pytestmark = pytest.mark.slow

CONFIGS = ["config.yaml", *(f"config/{path.name}" for path in (ROOT / "config").glob("*.yaml"))]
SMALL = ("samples=60", "kernel_size=20", "blocks=1", "width=8", "depths=[1,2]", "seeds=[1]")


@pytest.mark.parametrize("config", CONFIGS)
def test_every_config_has_no_mistake_and_what_its_figures_need(config):
    papers = {"papers": [path.stem for path in ROOT.glob("papers/*.yaml")]}
    run = run_of(papers | read_yaml(ROOT / config))
    assert mistakes_of(run) == {}
    assert figures.drawn(run) == run.config["figures"]
    for figure in run.config["figures"]:
        assert figures.tables_of(run, figure).keys() == {*run.figures[figure]["tables"]}
        figures.inputs(run, figure)


def test_the_config_for_laptops_has_a_plan(clone):
    """Others are planned by other tests."""
    text = clone.run("-n", "--configfile", "config/laptop.yaml")
    assert "are ignored" not in text  # as Snakemake warns of what is no wildcard
    planned = job_counts(text)
    assert planned["compute_spectrum"] > 0
    run = run_of(read_yaml(ROOT / "config/laptop.yaml"))
    assert planned["render_figure"] == len(run.config["figures"])


def test_all_mistakes_are_told_at_once_before_any_job(clone):
    (clone.folder / "mine.yaml").write_text("depths: [1, x]\n")
    wrong = ("--configfile", "mine.yaml", "--config", "widht=5", "dtype=half")
    text = clone.run(*wrong, fails=True)
    assert "\ndepths[1]: 'x' is not of type 'integer'\n" in text
    assert "\nunknown key 'widht'; did you mean 'width'?\n" in text
    assert "\ndtype: 'half' is not one of ['float64', 'float32']\n" in text
    assert "Traceback" not in text
    assert not (clone.folder / "results").exists()


def test_all_figures_and_tables_are_there_and_readable(finished):
    folder = finished.folder / "results/ci/figures"
    there = {str(path.relative_to(folder)) for path in finished.files("results/ci/figures/**/*")}
    assert there == {f"{name}.{kind}" for name in FEW for kind in ("pdf", "png")}
    sheets = finished.table("results/ci/tables/datasets.parquet")
    names = ["digits", "digits", "digits_sphere", "librispeech_sample"]
    assert sheets["dataset"].tolist() == names
    assert sheets["n"].tolist() == [200, 200, 1797, 150]
    spectra = finished.table("results/ci/tables/spectra.parquet")
    deep = spectra.query("depth == 2 and activation == 'relu' and kernel == 'infinite_ntk'")
    assert len(deep) == 2 * 2
    assert deep.kappa.notna().all()


def test_a_row_can_be_replayed_by_hand_with_the_same_bytes(finished, tmp_path):
    results, output = finished.folder / "results/ci", tmp_path / "row.parquet"
    data = [str(results / f"datasets/digits/seed-{seed}.npz") for seed in (1, 32)]
    options = "--dataset=digits --activation=relu --depths 0 1 2 --seeds 1 32 --width=32"
    options += " --kernel-size=48 --blocks=2"
    options = [*options.split(), f"--output={output}", "--data", *data]
    assert compute_spectrum.main(options) == 0
    row = results / "spectra/empirical_ntk/digits/relu.parquet"
    assert output.read_bytes() == row.read_bytes()


def test_a_mistake_stops_its_own_study_and_a_run_of_another_config_is_named(finished):
    wrong = (*CI, "--config", "orthogonality_study={samples: 5000}")
    table = "results/ci/tables/orthogonality.parquet"
    text = finished.run("-n", table, *wrong, fails=True)
    assert "more than the 1797 samples of digits" in text.splitlines()[-1]
    text = finished.run("-n", "liu2023relu_fig2", *wrong)
    assert job_counts(text) == Counter()
    # no finished run is changed unnoticed
    assert "results/ci is of another config (orthogonality_study), and will change" in text


def test_files_come_once_for_all_runs_from_a_mirror_and_into_a_checkout_of_any_name(tmp_path):
    """Training is tested on the test set, and speech comes straight from the archive."""
    clone = Clone(tmp_path / "it's a checkout")
    mirror, shared = tmp_path / "x'; touch planted; A='{b} $HOME", tmp_path / "it's a shared folder"
    (mirror / "tiny").mkdir(parents=True)
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (60, 4, 4)), rng.integers(0, 10, 60)
    parts = {"train_x": images, "train_y": labels, "test_x": images[:25], "test_y": labels[:25]}
    entry = idx_entry(mirror / "tiny", "tiny", **parts)
    archive = make_tar(make_tree(tmp_path / "tree"), mirror / "tiny/few.tar.gz")
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    speech = {"title": "Three speakers", "reader": "librispeech", "scaling": "none"}
    speech["files"] = {"train_x": {"name": "tiny/few.tar.gz", "urls": [], "sha256": [sha256]}}
    speech["options"] = {"subset": SUBSET, "labels": "speaker"}
    (clone.folder / "tiny.yaml").write_text(json.dumps({"tiny": entry, "few": speech}))
    fig3 = {"datasets": ["tiny"], "samples": "all", "depths": [1], "width": 8, "epochs": 2}
    overlay = {"run": "one", "mirror": str(mirror), "data_dir": str(shared)}
    overlay |= {"datasets": ["tiny", "few"], "overrides": {"few": {"frames": 40, "samples": "all"}}}
    overlay |= {"training": {"fig3": fig3 | {"learning_rates": [0.5]}}}
    (clone.folder / "one.json").write_text(json.dumps(overlay))
    draw = "results/one/datasets/tiny/seed-1.npz"
    target = "results/one/training/fig3/tiny/mlp/relu/depth-1.parquet"
    spoken = "results/one/datasets/few/all.npz"
    tiny = ("catalogues=[datasets.yaml,tiny.yaml]", *SMALL)
    options = ("--configfile", "one.json", "--config", *tiny)
    clone.run(draw, target, spoken, *options)
    sheet = json.loads((clone.folder / spoken).with_suffix(".json").read_text())
    assert (sheet["n"], sheet["d"], sheet["classes"], sheet["dtype"]) == (40, 768, 3, "float32")
    file = shared / "tiny/train_x.gz"
    assert file.read_bytes() == (mirror / "tiny/train_x.gz").read_bytes()
    assert clone.files("**/planted") == []
    table = clone.table(target)
    assert (set(table.n), set(table.n_test)) == ({60}, {25})
    assert (table.test_loss != table.train_loss).all()
    # another run, without the mirror: the files are there, and are left as they are
    before = file.stat()
    two = ("run=two", f"data_dir={shared}", "datasets=[tiny]")
    clone.run(draw.replace("one", "two"), "--config", *two, *tiny)
    assert file.stat() == before
    moved = f"data_dir={shared.rename(tmp_path / 'moved')}"
    entries = (clone.folder / "tiny.yaml").read_text()
    (clone.folder / "tiny.yaml").write_text(entries.replace('"urls": []', '"urls": ["http://a.b"]'))
    assert clone.plan(draw, target, spoken, *options, moved) == Counter()


def test_own_data_as_in_the_docs(clone):
    sizes = ("--config", "width=16", "depths=[0,1]", "seeds=[1]", "activations=[relu]")
    clone.run("--configfile", "docs/examples/own_data.yaml", *sizes, "--", "liu2023relu_fig2")
    table = clone.table("results/own_data/tables/conditioning.parquet")
    assert {*zip(table.dataset, table.d, strict=True)} == {("wine", 13)}
    figure = "results/own_data/figures/liu2023relu/fig2_conditioning_vs_depth.png"
    assert (clone.folder / figure).exists()
    drawn = PdfReader(clone.folder / figure.replace("png", "pdf")).pages[0].extract_text()
    assert "Chemistry of 178 wines" in drawn  # the catalogue's title
    advice = clone.planned_outputs("--configfile", "docs/examples/own_data.yaml", "--", "advice")
    assert "results/own_data/advice/wine.html" in advice


def test_own_activation_as_in_the_docs(clone):
    sizes = ("--config", *SMALL, "kernels=[infinite_ntk]", "datasets=[digits]", "--")
    options = ("--configfile", "docs/examples/own_activation.yaml", *sizes)
    target = "results/own_activation/tables/conditioning.parquet"
    clone.run(*options, target)
    table = clone.table(target)
    swish = table[table.activation == "swish"]
    assert len(swish) == 2  # depths
    assert swish.kappa_mean.notna().all()
    # only its own row depends on the file
    clone.edit("docs/examples/swish.py", "return z * z.sigmoid()", "return 1.0 * z * z.sigmoid()")
    rows = {name for name in clone.planned_outputs(*options, target) if "/spectra/" in name}
    assert rows == {"results/own_activation/spectra/infinite_ntk/digits/swish.parquet"}


def test_own_network_as_in_the_docs(clone):
    sizes = "depths: [1, 2], epochs: 1, seeds: [1], samples: 60, learning_rates: [0.1]"
    options = ("--configfile", "docs/examples/own_network.yaml", "--config")
    options += (f"training={{mine: {{{sizes}}}}}", "--")
    target = "results/own_network/tables/training/mine.parquet"
    clone.run(*options, target)
    table = clone.table(target)
    assert {*zip(table.model, table.depth, strict=True)} == set(product(("mine", "conv"), (1, 2)))
    assert table.test_accuracy.notna().all()
    assert (table.test_dot_product.isna() == (table.model == "mine")).all()
    # only its own jobs depend on the file, and not on its comments
    clone.edit("docs/examples/own_network.py", "# colours", "# of the image")
    assert clone.plan(*options, target) == Counter()
    clone.edit("docs/examples/own_network.py", "GroupNorm(4, width)", "GroupNorm(2, width)")
    trained = {name for name in clone.planned_outputs(*options, target) if "/depth-" in name}
    network = "mine/digits/mine/relu/depth"
    tables = product(("training", "training_kernels"), (1, 2))
    assert trained == {f"results/own_network/{name}/{network}-{d}.parquet" for name, d in tables}
