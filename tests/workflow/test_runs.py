"""What users type works: targets, overlays, mirrors, data and activations of their own."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.fault_server import Plan, running
from tests.ntk_conditioning.data.speech.corpora import SUBSET, make_tar, make_tree

ROOT = Path(__file__).parents[2]
REAL_DATA = ROOT.parent / "shared" / "data"
CONFIGS = ROOT / "config"
SMALL = ("samples=60", "kernel_size=20", "blocks=1", "width=8", "depths=[1,2]", "seeds=[1]")


@pytest.mark.parametrize("config", ["config.yaml", *sorted(p.name for p in CONFIGS.glob("*"))])
def test_every_config_has_a_plan(clone, config):
    planned = clone.plan("--configfile", config if config == "config.yaml" else f"config/{config}")
    assert planned["compute_spectrum"] > 0
    assert planned["render_figure"] == 20


def test_all_figures_and_tables_are_there_and_readable(finished):
    figures = {
        path.relative_to(finished.folder / "results/ci/figures").as_posix()
        for path in finished.files("results/ci/figures/**/*")
    }
    assert {name for name in figures if name.endswith(".png")} == {
        f"{name}.png"
        for name in (
            "liu2023relu/fig1_gradient_angle_vs_input_angle",
            "liu2023relu/fig2_conditioning_vs_depth",
            "liu2023relu/fig3_training_curves",
            "liu2023relu/fig4_g",
            "agarwal2021deep/bounds_vs_exact",
            "agarwal2021deep/fig1_accuracy_and_dot_products",
            "agarwal2021deep/fig2_normrelu_vs_selu",
            "agarwal2021deep/fig3_fully_connected",
            "agarwal2021deep/fig4_resnet",
            "agarwal2021deep/fig5_fixup",
            "agarwal2021deep/fig6_length_map_and_bias",
            "agarwal2021deep/fig7_normrelu_vs_selu_fully_connected",
            "agarwal2021deep/fig8_normrelu_vs_selu_resnet",
            "liu2022transition/fig3_orthogonality",
            "beyond/convergence_vs_kappa",
            "beyond/linearity_vs_width",
            "beyond/spectrum_decay",
            "beyond/activations",
            "beyond/precision",
            "beyond/separation_limit",
        )
    }
    assert len(figures) == 40
    sheets = pq.read_table(finished.folder / "results/ci/tables/datasets.parquet").to_pandas()
    speech = sheets.set_index("dataset").loc["librispeech_sample"]
    assert (speech.n, speech.d) == (150, 768)
    assert speech.classes == 12  # speakers
    index = pq.read_table(finished.folder / "results/ci/features/librispeech_sample.parquet")
    assert index.num_rows == 150
    spectra = pq.read_table(finished.folder / "results/ci/tables/spectra.parquet").to_pandas()
    # blocks of 48 samples: the Gram matrix of 5-dimensional data has rank 5 and no kappa
    gram = spectra[(spectra.dataset == "synthetic") & (spectra.depth == 0)]
    assert len(gram) == 2 * 2 * 2 * 2  # kernels, activations, seeds, blocks
    assert gram.kappa.isna().all()
    assert (gram.numerical_rank == 5).all()
    relu = spectra.query("dataset == 'synthetic' and depth == 2 and activation == 'relu'")
    assert relu.query("kernel == 'infinite_ntk'").kappa.notna().all()


def test_logs_and_timings_are_under_the_runs_name(finished):
    logs = finished.files("logs/ci/compute_spectrum/**/*.log")
    assert [path.relative_to(finished.folder).as_posix() for path in logs] == [
        f"logs/ci/compute_spectrum/empirical_ntk/{dataset}/{activation}.log"
        for dataset in ("digits", "librispeech_sample", "synthetic")
        for activation in ("linear", "relu")
    ]
    assert all("device cpu, float64" in path.read_text() for path in logs)
    rss = [
        float(path.read_text().splitlines()[1].split("\t")[2].replace("-", "0"))
        for path in finished.files("logs/ci/**/*.tsv")
    ]
    assert max(rss) < 2000  # MB


def test_a_row_can_be_replayed_by_hand_with_the_same_bytes(finished, tmp_path):
    import compute_infinite_min_angle
    import compute_spectrum

    results, output = finished.folder / "results/ci", tmp_path / "row.parquet"
    data = [str(results / f"datasets/digits/seed-{seed}.npz") for seed in (1, 32)]
    common = ["--dataset=digits", "--activation=relu", "--depths", "0", "2", "--seeds", "1", "32"]
    common += ["--data", *data, f"--output={output}"]
    blocks = ["--width=32", "--kernel-size=48", "--blocks=2"]
    assert compute_spectrum.main([*common, *blocks]) == 0
    row = results / "spectra/empirical_ntk/digits/relu.parquet"
    assert output.read_bytes() == row.read_bytes()
    assert compute_infinite_min_angle.main(common) == 0
    row = results / "angles/infinite_ntk/digits/relu.parquet"
    assert output.read_bytes() == row.read_bytes()
    angles = pq.read_table(row).to_pandas().query("depth == 2")
    assert angles["seed"].tolist() == [1, 32]  # each of its own draw
    assert angles["min_angle"].nunique() == 2


class TestDraws:
    def samples(self, clone, draw: str) -> dict[str, np.ndarray]:
        with np.load(clone.folder / f"results/ci/datasets/{draw}.npz") as archive:
            return dict(archive)

    def test_seeds_draw_different_samples_evenly_if_asked(self, finished):
        one, other = (self.samples(finished, f"digits/seed-{seed}") for seed in (1, 32))
        assert one["x"].shape == other["x"].shape == (200, 64)
        assert not np.array_equal(one["x"], other["x"])
        assert np.bincount(one["y"]).tolist() == np.bincount(other["y"]).tolist() == [20] * 10
        assert self.samples(finished, "synthetic/all")["x"].shape == (2000, 5)

    def test_another_run_draws_the_same(self, finished, clone):
        targets = [
            f"datasets/digits/seed-{seed}.{suffix}"
            for seed in (1, 32)
            for suffix in ("npz", "json")
        ]
        options = ("--configfile", "config/ci.yaml", "--config", "run=again", "--")
        clone.run(*options, *(f"results/again/{target}" for target in targets))
        for target in targets:
            again = clone.folder / "results/again" / target
            assert again.read_bytes() == (finished.folder / "results/ci" / target).read_bytes()

    def test_their_datasheets_are_a_table(self, finished):
        found = pd.read_parquet(finished.folder / "results/ci/tables/datasets.parquet")
        names = ["digits", "digits", "digits_sphere", "librispeech_sample", "synthetic"]
        assert found["dataset"].tolist() == names
        assert found["seed"].fillna(-1).tolist() == [1, 32, -1, -1, -1]
        assert found["n"].tolist() == [200, 200, 1797, 150, 2000]
        assert found.query("dataset == 'digits'")["class_min"].tolist() == [20, 20]
        synthetic = found.set_index("dataset").loc["synthetic"]
        assert (synthetic["gram_rank"], synthetic["duplicates"]) == (5, 0)
        # of depth 0 the gradients are the samples
        angles = pd.read_parquet(finished.folder / "results/ci/tables/angles.parquet")
        linear = angles.query("depth == 0 and kernel == 'infinite_ntk' and activation == 'relu'")
        both = linear.merge(found, on=["dataset", "seed"], suffixes=("", "_of_samples"))
        assert len(both) == 3
        np.testing.assert_allclose(both["min_angle"], both["min_angle_of_samples"], rtol=1e-12)
        assert both["i"].tolist() == both["i_of_samples"].tolist()


class TestMistakes:
    def test_all_are_told_at_once_before_any_job(self, clone):
        done = clone.run("--config", "depths=[1,x]", "widht=5", "dtype=half", check=False)
        text = done.stdout + done.stderr
        assert done.returncode != 0
        for line in (
            "--config: depths[1]: 'x' is not a whole number",
            "--config: unknown key 'widht'; did you mean 'width'?",
            "--config: dtype: 'half' is not one of float64, float32",
        ):
            assert line in text
        assert "Traceback" not in text
        assert not (clone.folder / "results").exists()

    def test_the_overlay_is_named(self, clone):
        (clone.folder / "mine.yaml").write_text("datasets: [digit]\n")
        done = clone.run("-n", "--configfile", "mine.yaml", check=False)
        expected = "mine.yaml: datasets[0]: unknown dataset 'digit'; did you mean 'digits'?"
        assert expected in done.stdout + done.stderr


def write_idx(path: Path, values: np.ndarray) -> str:
    """Write an unsigned-byte IDX file, gzipped, and return its sha256."""
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(header + values.tobytes(), mtime=0))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def mirrored(clone, tmp_path):
    """A clone with a catalogue of a tiny dataset in MNIST's format, and a mirror that has it."""
    random = np.random.default_rng(0)
    mirror = tmp_path / "mirror"
    images = random.integers(0, 256, (60, 4, 4), dtype=np.uint8)
    labels = random.integers(0, 10, 60, dtype=np.uint8)
    files = {
        part: {
            "name": f"tiny/{part}.gz",
            "urls": [],
            "sha256": [write_idx(mirror / f"tiny/{part}.gz", values)],
            "bytes": (mirror / f"tiny/{part}.gz").stat().st_size,
        }
        for part, values in (
            ("train_x", images),
            ("train_y", labels),
            ("test_x", images[:25]),
            ("test_y", labels[:25]),
        )
    }
    entry = {
        "title": "Tiny",
        "reader": "idx",
        "files": files,
        "scaling": "symmetric",
        "value_range": [0, 255],
    }
    (clone.folder / "tiny.yaml").write_text(json.dumps({"tiny": entry}))
    clone.mirror = mirror
    return clone


TINY = ("catalogues=[datasets.yaml,tiny.yaml]", "datasets=[tiny]", *SMALL)


def test_files_come_from_a_mirror_once_for_all_runs(mirrored):
    target = "results/one/tables/spectra.parquet"
    mirrored.run(target, "--config", "run=one", f"mirror={mirrored.mirror}", *TINY)
    table = pq.read_table(mirrored.folder / target).to_pandas()
    assert set(table.dataset) == {"tiny"}
    assert (table.d == 16).all()
    file = mirrored.folder / "data/tiny/train_x.gz"
    before = file.stat()
    # another run, without the mirror: the files are there, and are left as they are
    mirrored.run("results/two/datasets/tiny/seed-1.npz", "--config", "run=two", *TINY)
    assert file.stat() == before
    # what said that they are in place has been used, and is not missed
    assert mirrored.files("results/*/downloads/**/*") == []
    assert mirrored.plan(target, "--config", "run=one", *TINY) == Counter()


def test_a_mirror_and_a_checkout_may_have_any_name(mirrored):
    mirrored.folder = mirrored.folder.rename(mirrored.folder.with_name("it's a checkout"))
    mirror = mirrored.mirror.rename(mirrored.mirror.with_name("x'; touch planted; A='{b} $HOME"))
    overlay = {"run": "one", "mirror": str(mirror), "catalogues": ["datasets.yaml", "tiny.yaml"]}
    (mirrored.folder / "overlay.yaml").write_text(json.dumps(overlay))
    receipt = "results/one/downloads/tiny/train_x.gz.json"
    mirrored.run(receipt, "--notemp", "--configfile", "overlay.yaml")
    copy = mirrored.folder / "data/tiny/train_x.gz"
    assert copy.read_bytes() == (mirror / "tiny/train_x.gz").read_bytes()
    assert mirrored.files("**/planted") == []


def test_training_is_tested_on_the_test_set(mirrored):
    overlay = {"run": "one", "mirror": str(mirrored.mirror)}
    overlay["catalogues"] = ["datasets.yaml", "tiny.yaml"]
    overlay["training"] = {"fig3": {"datasets": ["tiny"], "depths": [1], "width": 8, "epochs": 2}}
    overlay["training"]["fig3"]["learning_rates"] = [0.5]
    (mirrored.folder / "one.json").write_text(json.dumps(overlay))
    target = "results/one/training/fig3/tiny/mlp/relu/depth-1.parquet"
    mirrored.run(target, "--configfile", "one.json")
    table = pq.read_table(mirrored.folder / target).to_pandas()
    assert set(table.n) == {60}
    assert set(table.n_test) == {25}
    assert len(table) == 2 * 3  # seeds, epochs from 0 on
    # the test samples are the first of the training samples, but not all of them
    assert table.test_loss.notna().all()
    assert (table.test_loss != table.train_loss).all()
    assert mirrored.files("results/one/checkpoints/**/*") == []


def test_a_file_in_place_survives_a_failure(mirrored):
    """Snakemake deletes the outputs of a failed job, so a shared file must not be one."""
    file = mirrored.folder / "data/tiny/train_x.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"someone's own file of that name")
    target = "results/one/datasets/tiny/seed-1.npz"
    done = mirrored.run(target, "--config", "run=one", *TINY, check=False)
    assert done.returncode != 0
    assert "data/tiny/train_x.gz" in done.stdout + done.stderr
    assert file.read_bytes() == b"someone's own file of that name"


@pytest.mark.parametrize("problem", ["absent", "damaged"])
def test_a_file_that_cannot_be_had_is_one_line_and_nothing_is_left(mirrored, problem):
    original = mirrored.mirror / "tiny/train_x.gz"
    if problem == "absent":
        original.unlink()
    else:
        original.write_bytes(original.read_bytes()[:-1])
    target = "results/one/datasets/tiny/seed-1.npz"
    done = mirrored.run(
        target, "--config", "run=one", f"mirror={mirrored.mirror}", *TINY, check=False
    )
    assert done.returncode != 0
    log = (mirrored.folder / "logs/one/download_file/tiny/train_x.gz.log").read_text()
    errors = [line for line in log.splitlines() if line.startswith("download_file: error: ")]
    assert len(errors) == 1, log
    assert "tiny/train_x.gz" in errors[0]
    assert not (mirrored.folder / "data/tiny/train_x.gz").exists()


def test_speech_comes_straight_from_the_downloaded_archive(clone, tmp_path):
    mirror = tmp_path / "mirror"
    (mirror / "speech").mkdir(parents=True)
    archive = make_tar(make_tree(tmp_path / "tree"), mirror / "speech/few.tar.gz")
    entry = {
        "title": "Three speakers",
        "reader": "librispeech",
        "options": {"subset": SUBSET, "labels": "speaker"},
        "files": {
            "train_x": {
                "name": "speech/few.tar.gz",
                "urls": [],
                "sha256": [hashlib.sha256(archive.read_bytes()).hexdigest()],
            }
        },
        "scaling": "none",
    }
    (clone.folder / "few.yaml").write_text(json.dumps({"few": entry}))
    options = ("catalogues=[datasets.yaml,few.yaml]", "datasets=[few]", "kernel_size=20")
    target = "results/demo/datasets/few/all.npz"
    config = ("--config", *options, "overrides={few: {frames: 40}}")
    clone.run(target, *config, f"mirror={mirror}")
    sheet = json.loads((clone.folder / target).with_suffix(".json").read_text())
    assert (sheet["n"], sheet["d"], sheet["classes"], sheet["dtype"]) == (40, 768, 3, "float32")
    log = (clone.folder / "logs/demo/extract_speech_features/few.log").read_text()
    assert "data/speech/few.tar.gz" in log
    # other settings of the features are other features; another figure's are not
    assert clone.plan(target, *config, "width=8") == Counter()
    planned = clone.plan(target, *config, "speech={num_mel_bins: 40}")
    expected = ("download_file", "extract_speech_features", "prepare_dataset")
    assert planned == dict.fromkeys(expected, 1)


@pytest.mark.slow
def test_two_runs_at_once_share_one_download(mirrored, tmp_path):
    """Two working directories, one data folder, and a server that is slow and first says 503."""
    content = {
        f"/tiny/{part}.gz": Plan(content=(mirrored.mirror / f"tiny/{part}.gz").read_bytes())
        for part in ("train_x", "train_y")
    }
    with running() as server:
        for path, plan in content.items():
            slow = replace(plan, rate=len(plan.content) / 3)
            server.serve(path, replace(plan, status=503), slow)
        other = type(mirrored)(tmp_path / "other")
        (other.folder / "tiny.yaml").write_text((mirrored.folder / "tiny.yaml").read_text())
        options = ("--config", "run=one", f"mirror={server.url()}", f"data_dir={tmp_path}/data")
        target = "results/one/datasets/tiny/seed-1.npz"
        with ThreadPoolExecutor(2) as pool:
            clones = (mirrored, other)
            list(pool.map(lambda clone: clone.run(target, *options, *TINY, "--cores", "2"), clones))
        sent = [(seen.path, seen.sent) for seen in server.seen if seen.status == 200]
    assert sorted(sent) == sorted((path, len(plan.content)) for path, plan in content.items())
    first, second = ((clone.folder / target).read_bytes() for clone in clones)
    assert first == second
    logs = [path.read_text() for path in mirrored.files("logs/one/download_file/**/*.log")]
    logs += [path.read_text() for path in other.files("logs/one/download_file/**/*.log")]
    # for each of the two files one run fetched it, and the other one waited or came later
    assert sum("is in place with the right sha256" in log for log in logs) == 2


@pytest.mark.slow
@pytest.mark.skipif(
    not (REAL_DATA / "svhn").exists(), reason="the genuine subsets are not beside the repository"
)
def test_the_original_formats_go_through_the_same_rules(clone):
    text = (ROOT / "tests/data/catalogue.yaml").read_text()
    (clone.folder / "subsets.yaml").write_text(text.replace("../shared/data", str(REAL_DATA)))
    names = ["svhn_subset", "cifar10_subset", "librispeech_subset"]
    clone.run(
        *("results/real/tables/conditioning.parquet", "results/real/tables/datasets.parquet"),
        "--config",
        *("run=real", f"mirror={REAL_DATA}", "catalogues=[datasets.yaml,subsets.yaml]"),
        f"datasets=[{','.join(names)}]",
        *("kernel_size=100", "blocks=1", "width=16", "depths=[1]", "seeds=[1]"),
        "activations=[relu]",
        "speech={frames: 3000}",
    )
    table = pq.read_table(clone.folder / "results/real/tables/conditioning.parquet").to_pandas()
    assert set(table.dataset) == set(names)
    assert table.kappa_mean.notna().all()
    sheets = pq.read_table(clone.folder / "results/real/tables/datasets.parquet").to_pandas()
    found = sheets.set_index("dataset")[["n", "d", "classes", "duplicates"]]
    assert found.loc["svhn_subset"].tolist() == [442, 3072, 10, 0]
    assert found.loc["cifar10_subset"].tolist() == [3448, 3072, 10, 0]
    assert found.loc["librispeech_subset"].tolist() == [3000, 768, 201, 0]


@pytest.mark.slow
@pytest.mark.skipif(
    not (REAL_DATA / "mnist").exists(), reason="the full MNIST files are not beside the repository"
)
def test_full_mnist_and_fashion_mnist_go_through_the_same_rules(clone):
    clone.run(
        "results/real/tables/conditioning.parquet",
        "--config",
        "run=real",
        f"mirror={REAL_DATA}",
        "datasets=[mnist,fashion_mnist]",
        *("kernel_size=100", "blocks=1", "width=16", "depths=[1]", "seeds=[1]"),
        "activations=[relu]",
    )
    table = pq.read_table(clone.folder / "results/real/tables/conditioning.parquet").to_pandas()
    assert set(table.dataset) == {"mnist", "fashion_mnist"}
    assert (table.d == 784).all()
    assert table.kappa_mean.notna().all()
    sheet = json.loads((clone.folder / "results/real/datasets/mnist/all.json").read_text())
    assert (sheet["n"], sheet["d"], sheet["classes"]) == (60000, 784, 10)


@pytest.mark.slow
def test_own_data_as_in_the_docs(clone):
    clone.run(
        "--configfile",
        "examples/own_data.yaml",
        "--config",
        "width=16",
        "depths=[0,1]",
        "seeds=[1]",
        "--",
        "liu2023relu_fig2",
    )
    table = pq.read_table(clone.folder / "results/own_data/tables/conditioning.parquet").to_pandas()
    assert set(table.dataset) == {"wine"}
    assert (table.d == 13).all()
    assert (
        clone.folder / "results/own_data/figures/liu2023relu/fig2_conditioning_vs_depth.png"
    ).exists()


@pytest.mark.slow
def test_own_activation_as_in_the_docs(clone):
    options = (
        "--configfile",
        "examples/own_activation.yaml",
        "--config",
        *SMALL,
        "datasets=[digits]",
        "--",
    )
    target = "results/own_activation/tables/conditioning.parquet"
    clone.run(*options, target)
    table = pq.read_table(clone.folder / target).to_pandas()
    swish = table[table.activation == "swish"]
    assert len(swish) == 4  # two kernels, two depths
    assert swish.kappa_mean.notna().all()
    # only its own cells depend on the file, and all of them
    clone.edit("examples/swish.py", "return z * z.sigmoid()", "return 1.0 * z * z.sigmoid()")
    told = clone.run_cells(*options, target)
    assert len(told["computed"]) == 4
    assert all("/digits/swish/" in cell for cell in told["computed"])
