"""What users type works: targets, overlays, mirrors, data and activations of their own."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import struct
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
REAL_DATA = ROOT.parent / "shared" / "data"
# One worker runs all that needs the finished clone, so that it is made once.
pytestmark = pytest.mark.xdist_group("finished")

SMALL = ("samples=60", "kernel_size=20", "blocks=1", "width=8", "depths=[1,2]", "seeds=[1]")


@pytest.mark.parametrize("config", ["config.yaml", "config/ci.yaml", "config/paper.yaml"])
def test_every_config_has_a_plan(clone, config):
    start = time.perf_counter()
    planned = clone.plan("--configfile", config)
    assert time.perf_counter() - start < 10
    assert planned["compute_spectrum"] > 0
    assert planned["render_figure"] == 5


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
            "liu2023relu/fig4_g",
            "beyond/spectrum_decay",
            "beyond/activations",
        )
    }
    assert len(figures) == 10
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
    assert len(logs) == 10
    assert all("device cpu, float64" in path.read_text() for path in logs)
    rss = [
        float(path.read_text().splitlines()[1].split("\t")[2].replace("-", "0"))
        for path in finished.files("logs/ci/**/*.tsv")
    ]
    assert max(rss) < 2000  # MB


def test_a_job_can_be_replayed_by_hand_with_the_same_bytes(finished, tmp_path):
    import compute_spectrum

    folder = finished.folder / "results/ci/spectra/empirical_ntk/digits/relu/depth-2"
    data = finished.folder / "results/ci/datasets/digits.npz"
    output = tmp_path / "cell.parquet"
    options = {"data": data, "dataset": "digits", "activation": "relu", "depth": 2, "width": 32}
    options |= {"dtype": "float64", "kernel-size": 48, "blocks": 2, "eigenvalues": "first"}
    options |= {"threads": 1, "seeds": 32, "outputs": output}
    assert compute_spectrum.main([f"--{name}={value}" for name, value in options.items()]) == 0
    assert output.read_bytes() == (folder / "seed-32.parquet").read_bytes()


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
            "urls": [f"https://example.org/{part}.gz"],
            "sha256": [write_idx(mirror / f"tiny/{part}.gz", values)],
            "bytes": (mirror / f"tiny/{part}.gz").stat().st_size,
        }
        for part, values in (("train_x", images), ("train_y", labels))
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
    assert (mirrored.folder / "data/tiny/train_x.gz").exists()
    # another run, without the mirror: the files are there
    mirrored.run("results/two/datasets/tiny.npz", "--config", "run=two", *TINY)


@pytest.mark.parametrize("problem", ["absent", "damaged"])
def test_a_file_that_cannot_be_had_is_one_line_and_nothing_is_left(mirrored, problem):
    original = mirrored.mirror / "tiny/train_x.gz"
    if problem == "absent":
        original.unlink()
    else:
        original.write_bytes(original.read_bytes()[:-1])
    target = "results/one/datasets/tiny.npz"
    done = mirrored.run(
        target, "--config", "run=one", f"mirror={mirrored.mirror}", *TINY, check=False
    )
    assert done.returncode != 0
    log = (mirrored.folder / "logs/download_file/tiny/train_x.gz.log").read_text()
    assert len(log.splitlines()) == 1, log
    assert "tiny/train_x.gz" in log
    assert not (mirrored.folder / "data/tiny/train_x.gz").exists()


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
        "kernel_size=256",
        "blocks=1",
        "width=64",
        "depths=[1,3]",
        "seeds=[1]",
        "activations=[relu]",
    )
    table = pq.read_table(clone.folder / "results/real/tables/conditioning.parquet").to_pandas()
    assert set(table.dataset) == {"mnist", "fashion_mnist"}
    assert (table.d == 784).all()
    assert table.kappa_mean.notna().all()
    sheet = json.loads((clone.folder / "results/real/datasets/mnist.json").read_text())
    assert (sheet["n"], sheet["d"], sheet["classes"]) == (60000, 784, 10)


def readme_example(name: str) -> str:
    """Return the code block that the README shows for a file of examples/."""
    text = (ROOT / "README.md").read_text()
    found = re.search(rf"\(examples/{re.escape(name)}\).*?```\w*\n(.*?)```", text, re.DOTALL)
    assert found, f"the README does not show examples/{name}"
    return found.group(1)


@pytest.mark.parametrize(
    "name", ["own_data.yaml", "own_catalogue.yaml", "own_activation.yaml", "swish.py"]
)
def test_the_readme_shows_the_examples_as_they_are(name):
    assert readme_example(name) == (ROOT / "examples" / name).read_text()


def test_the_readmes_python_runs():
    (code,) = re.findall(
        r"```python\n(import numpy.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    found: dict = {}
    exec(code.replace("print(", "result = ("), found)
    finite, limit = found["result"]
    # 300 samples in 20 dimensions: both are well conditioned, the finite network less so
    assert 1 < limit < finite < 100 * limit


@pytest.mark.slow
def test_own_data_as_in_the_readme(clone):
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
def test_own_activation_as_in_the_readme(clone):
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
    # only its own cells depend on the file
    clone.edit("examples/swish.py", "return z * z.sigmoid()", "return 1.0 * z * z.sigmoid()")
    planned = clone.planned_outputs(*options, target)
    assert {
        name for name in planned if "/spectra/" in name and name.endswith("seed-1.parquet")
    } == {
        f"results/own_activation/spectra/{kernel}/digits/swish/depth-{depth}/seed-1.parquet"
        for kernel in ("empirical_ntk", "infinite_ntk")
        for depth in (1, 2)
    }
