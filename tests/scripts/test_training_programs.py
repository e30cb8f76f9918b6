"""The programs around training: its kernels, its tables, and the rates that it chooses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aggregate_table
import compute_training_kernel
import numpy as np
import pytest
import select_learning_rates
import torch
import train_network

from ntk_conditioning import tables
from ntk_conditioning.data import datasets
from ntk_conditioning.data.prepared import PreparedSamples, load_prepared, save_prepared
from ntk_conditioning.data.subsets import seed_stream
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks.mlp import init_mlp, linear_factor
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import conditioning
from ntk_conditioning.tables.training import LEARNING_RATES, TRAINING, TRAINING_KERNELS
from ntk_conditioning.training import learning_rates

SEEDS = (1, 5)


def write_samples(path: Path, *, n: int = 20, d: int = 4, labels: bool = True) -> Path:
    chance = np.random.default_rng(0)
    y = chance.permutation(n) % 3 if labels else None
    save_prepared(path, PreparedSamples("tiny", chance.standard_normal((n, d)), y, "none"))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_samples(tmp_path / "train.npz")
    return tmp_path


def arguments(given: Mapping[str, Any]) -> list[str]:
    text = []
    for name, value in given.items():
        values = value if isinstance(value, tuple) else (value,)
        text += [f"--{name.replace('_', '-')}", *map(str, values)]
    return text


def network(folder: Path, options: Mapping[str, Any]) -> list[str]:
    """Return the arguments that name a network and its samples."""
    usual = {
        "data": folder / "train.npz",
        "experiment": "fig3",
        "dataset": "tiny",
        "activation": "relu",
        "depth": 2,
        "width": 16,
        "seeds": SEEDS,
        "output": folder / "kernel.parquet",
    }
    return arguments(usual | options)


def kernel(folder: Path, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a call that must succeed."""
    assert compute_training_kernel.main(network(folder, options)) == 0
    path = options.get("output", folder / "kernel.parquet")
    return tables.read(path, TRAINING_KERNELS).to_pylist()


@pytest.fixture
def error(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return the only line about an error of a call that must fail."""

    def read(main: Callable[..., int], argv: Sequence[str]) -> str:
        capsys.readouterr()
        assert main(argv) == 2
        lines = capsys.readouterr().err.splitlines()
        assert [line for line in lines if "error" in line] == lines[-1:]
        return lines[-1]

    return read


# --- kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_kernel_is_the_ntk_of_the_networks_that_are_trained(folder, activation):
    """All samples in another order: eigenvalues within 1e-12, thousands of roundings."""
    x = torch.from_numpy(load_prepared(folder / "train.npz").x)
    found = kernel(folder, activation=activation)
    assert [row["seed"] for row in found] == [*SEEDS]
    for row in found:
        init = generator(row["seed"], "init")
        mlp = init_mlp(4, depth=2, width=16, activation=activation, generator=init)
        expected = conditioning.conditioning(empirical.ntk(mlp, x).numpy())
        assert expected.kappa is not None
        near = {"abs": 0, "rel": 1e-12}
        assert row["lambda_max"] == pytest.approx(expected.lambda_max, **near)
        # The smallest eigenvalue is known to so many digits fewer as kappa has.
        assert row["kappa"] == pytest.approx(expected.kappa, abs=0, rel=1e-14 * expected.kappa)
        assert row["lambda_min"] == pytest.approx(row["lambda_max"] / row["kappa"], **near)
        assert row["critical_learning_rate"] == pytest.approx(40 / expected.lambda_max, **near)
        assert (row["n"], row["n_train"], row["width"]) == (20, 20, 16)
        assert (row["activation"], row["depth"], row["model"]) == (activation, 2, "mlp")


@pytest.mark.parametrize("options", [{"depth": 0}, {"activation": "linear"}])
def test_a_linear_network_of_more_samples_than_features_has_no_kappa(folder, options):
    for row in kernel(folder, **options):
        assert (row["kappa"], row["lambda_min"]) == (None, None)
        assert row["critical_learning_rate"] == pytest.approx(40 / row["lambda_max"], rel=1e-14)


def test_a_linear_network_of_fewer_samples_has_one_by_its_factor(folder):
    """Even a condition number whose kernel would have no digit of it."""
    x = np.random.default_rng(1).standard_normal((6, 9))
    x[5] = x[4] + 1e-9 * x[5]
    save_prepared(folder / "train.npz", PreparedSamples("tiny", x, np.arange(6), "none"))
    (row,) = kernel(folder, depth=3, activation="linear", seeds=1)
    init = generator(1, "init")
    mlp = init_mlp(9, depth=3, width=16, activation="linear", generator=init)
    expected = conditioning.conditioning_from_factor(
        linear_factor(mlp, torch.from_numpy(x)).numpy()
    )
    assert row["kappa"] > 1e17
    assert row["kappa"] == pytest.approx(expected.kappa, rel=1e-4)  # digits that are left


def test_of_many_samples_a_part_is_taken_by_chance(folder, monkeypatch):
    whole = kernel(folder)
    monkeypatch.setattr(compute_training_kernel, "MOST_SAMPLES", 8)
    part = kernel(folder)
    x = load_prepared(folder / "train.npz").x
    for row, all_of_them in zip(part, whole, strict=True):
        assert (row["n"], row["n_train"]) == (8, 20)
        chosen = torch.from_numpy(x[generator(row["seed"], "blocks").permutation(20)[:8]])
        init = generator(row["seed"], "init")
        mlp = init_mlp(4, depth=2, width=16, activation="relu", generator=init)
        largest = torch.linalg.eigvalsh(empirical.ntk(mlp, chosen))[-1].item()
        assert row["critical_learning_rate"] == pytest.approx(16 / largest, rel=1e-12)
        # An eigenvalue that grows like the number of samples leaves the rate as it is, roughly.
        ratio = row["critical_learning_rate"] / all_of_them["critical_learning_rate"]
        assert 0.5 < ratio < 2


def test_seeds_draw_the_samples_of_a_subset(folder):
    """The kernel of a seed's draw is that of a file which holds just these samples."""
    found = kernel(folder, samples=8)
    data = load_prepared(folder / "train.npz")
    for row in found:
        seed = row["seed"]
        dataset = PreparedSamples("tiny", data.x, data.y, "none")
        part = datasets.subset(dataset, 8, generator=seed_stream(seed))
        save_prepared(folder / "part.npz", part)
        path = folder / "part.parquet"
        assert [row] == kernel(folder, data=folder / "part.npz", seeds=seed, output=path)
    assert found != kernel(folder)


def test_the_input_scale_is_a_factor_of_the_samples(folder):
    """The kernel of a ReLU network is quadratic in it: here (2/4) times the other."""
    usual, scaled = kernel(folder), kernel(folder, input_scale="fan_in")
    for one, other in zip(usual, scaled, strict=True):
        assert other["lambda_max"] == pytest.approx(one["lambda_max"] / 2, rel=1e-12)
        assert other["kappa"] == pytest.approx(one["kappa"], rel=1e-9)


def test_a_rate_below_the_critical_one_converges_and_one_beyond_diverges(folder):
    """Of a linear model with full batches, whose kernel stays what it is."""
    save_prepared(
        folder / "train.npz",
        PreparedSamples(
            "tiny", np.random.default_rng(2).standard_normal((6, 9)), np.arange(6) % 2, "none"
        ),
    )
    (row,) = kernel(folder, depth=0, seeds=1)
    rates = tuple(learning_rates.around(row["critical_learning_rate"], (0.97, 1.04)))
    train = {
        "batch_size": "all",
        "loss": "square",
        "outputs": "scalar",
        "dtype": "float64",
        "epochs": 200,
        "evaluate_every": 100,
        "learning_rates": rates,
        "output": folder / "curves.parquet",
    }
    assert train_network.main(network(folder, {"depth": 0, "seeds": 1} | train)) == 0
    curves = tables.read(folder / "curves.parquet", TRAINING)
    losses = curves["train_loss"].to_pylist()
    assert losses[0] > losses[1] > losses[2]
    assert curves["diverged"].to_pylist() == [False] * 4 + [True] * 2


def test_two_calls_write_the_same_bytes(folder):
    written = set()
    for threads in (1, 2, 1):
        kernel(folder, threads=threads)
        written.add((folder / "kernel.parquet").read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"samples": 21}, "tiny: 21 samples asked for; it must be 2 to 20, or all"),
        ({"seeds": (1, 1)}, "--seeds gives a seed twice; give each once"),
        ({"data": "absent.npz"}, "absent.npz does not exist"),
        ({"activation": "rellu"}, "did you mean 'relu'?"),
        ({"epochs": 3}, "unrecognized arguments: --epochs 3"),
    ],
)
def test_a_mistake_about_kernels_is_one_line(folder, error, options, problem):
    line = error(compute_training_kernel.main, network(folder, options))
    assert problem in line
    assert not (folder / "kernel.parquet").exists()


def test_a_kernel_of_samples_without_labels_is_refused(folder, error):
    write_samples(folder / "train.npz", labels=False)
    line = error(compute_training_kernel.main, network(folder, {}))
    assert "train.npz has no labels, and training needs them" in line


# --- tables ---------------------------------------------------------------------------------------

CELLS = [("fig3", "relu", 0), ("fig3", "relu", 2), ("fig4", "relu", 2), ("fig4", "tanh", 2)]


@pytest.fixture
def cells(folder: Path) -> Path:
    """Make the kernels and the curves of the networks of `CELLS`."""
    for experiment, activation, depth in CELLS:
        place = f"{experiment}/tiny/mlp/{activation}/depth-{depth}.parquet"
        named = {"experiment": experiment, "activation": activation, "depth": depth}
        kernel(folder, **named, output=folder / "training_kernels" / place)
        train = {"learning_rates": (0.05, 0.2), "epochs": 2, "batch_size": 8, "width": 4}
        output = {"output": folder / "training" / place}
        assert train_network.main(network(folder, named | train | output)) == 0
    return folder


def aggregate(folder: Path, name: str, rows: str | None = None) -> list[str]:
    """Return the command line that makes a table, of the files of a folder of that name."""
    places = (f"{e}/tiny/mlp/{a}/depth-{depth}.parquet" for e, a, depth in reversed(CELLS))
    files = tuple(folder / (rows or name) / place for place in places)
    return arguments({"table": name, "rows": files, "output": folder / f"{name}.parquet"})


@pytest.mark.parametrize("table", [TRAINING, TRAINING_KERNELS], ids=lambda table: table.name)
def test_the_cells_of_a_run_become_one_table(cells, table):
    assert aggregate_table.main(aggregate(cells, table.name)) == 0
    found = tables.read(cells / f"{table.name}.parquet", table).to_pylist()
    keys = [(row["experiment"], row["activation"], row["depth"]) for row in found]
    assert list(dict.fromkeys(keys)) == CELLS
    single = [
        tables.read(cells / f"{table.name}/{e}/tiny/mlp/{a}/depth-{k}.parquet", table)
        for e, a, k in CELLS
    ]
    assert found == [row for part in single for row in part.to_pylist()]


def test_all_cells_that_are_missing_are_named(cells, error):
    for gone in ("fig3/tiny/mlp/relu/depth-2", "fig4/tiny/mlp/tanh/depth-2"):
        (cells / f"training/{gone}.parquet").unlink()
    line = error(aggregate_table.main, aggregate(cells, "training"))
    assert "training/fig3/tiny/mlp/relu/depth-2.parquet: no such table" in line
    assert "training/fig4/tiny/mlp/tanh/depth-2.parquet: no such table" in line
    assert "depth-0" not in line
    assert not (cells / "training.parquet").exists()


def test_cells_of_the_other_table_are_refused(cells, error):
    argv = aggregate(cells, "training", rows="training_kernels")
    assert "not a training table of this version" in error(aggregate_table.main, argv)


# --- rates ----------------------------------------------------------------------------------------

CRITERIA = {
    "fig3": {"criterion": "final_loss", "loss_level": 0.1},
    "fig4": {"criterion": "epochs_to_loss", "loss_level": 1e-30},
}


@pytest.fixture
def aggregated(cells: Path) -> Path:
    for name in ("training", "training_kernels"):
        assert aggregate_table.main(aggregate(cells, name)) == 0
    return cells


def select(folder: Path, criteria: Any = CRITERIA, **options: Any) -> list[str]:
    return arguments(
        {
            "training": folder / "training.parquet",
            "kernels": folder / "training_kernels.parquet",
            "criteria": criteria if isinstance(criteria, str) else json.dumps(criteria),
            "output": folder / "learning_rates.parquet",
        }
        | options
    )


def test_the_best_rate_of_every_network_is_written_and_edges_are_told(aggregated, capsys):
    capsys.readouterr()
    assert select_learning_rates.main(select(aggregated)) == 0
    told = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    found = tables.read(aggregated / "learning_rates.parquet", LEARNING_RATES).to_pylist()
    assert [(row["experiment"], row["activation"], row["depth"]) for row in found] == CELLS
    curves = tables.read(aggregated / "training.parquet", TRAINING).to_pylist()
    critical = tables.read(aggregated / "training_kernels.parquet", TRAINING_KERNELS).to_pylist()
    for row, cell in zip(found, CELLS, strict=True):
        place = f"{cell[0]}/tiny/mlp/{cell[1]}/depth-{cell[2]}"
        if cell[0] == "fig4":  # a loss that no rate comes to
            assert row["learning_rate"] is None
            assert f"{place}: no rate is good; try lower ones or more epochs" in told
            continue
        means = {
            rate: np.mean(
                [
                    r["train_loss"]
                    for r in curves
                    if (r["experiment"], r["activation"], r["depth"]) == cell
                    and (r["epoch"], r["learning_rate"]) == (2, rate)
                ]
            )
            for rate in (0.05, 0.2)
        }
        assert row["learning_rate"] == min(means, key=lambda rate: means[rate])
        assert row["score"] == pytest.approx(min(means.values()), rel=1e-15)
        edge = "lowest" if row["learning_rate"] == 0.05 else "highest"
        assert row["edge"] == edge
        advice = f"the best rate {row['learning_rate']:g} is the {edge} of its grid; widen it"
        assert any(line.startswith(f"{place}: {advice}") for line in told)
        mine = [
            r["critical_learning_rate"]
            for r in critical
            if (r["experiment"], r["activation"], r["depth"]) == cell
        ]
        assert row["critical_learning_rate"] == pytest.approx(np.mean(mine), rel=1e-15)
        assert (row["kappa"] is None) == (cell[2] == 0)
        assert (row["seeds"], row["rates"]) == (2, 2)
    assert len(told) == 4


def test_two_calls_select_the_same_bytes(aggregated):
    written = set()
    for _ in range(2):
        assert select_learning_rates.main(select(aggregated)) == 0
        written.add((aggregated / "learning_rates.parquet").read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize(
    ("criteria", "options", "problem"),
    [
        ({"fig3": CRITERIA["fig3"]}, {}, "fig4/tiny/mlp/relu/2: its experiment has no criterion"),
        ("{fig3", {}, "argument --criteria: not JSON"),
        ("[1]", {}, "argument --criteria: not a JSON object"),
        (CRITERIA, {"training": "absent.parquet"}, "absent.parquet: no such table"),
        (CRITERIA, {"kernels": "absent.parquet"}, "absent.parquet: no such table"),
    ],
)
def test_a_mistake_about_rates_is_one_line(aggregated, error, criteria, options, problem):
    line = error(select_learning_rates.main, select(aggregated, criteria, **options))
    assert problem in line
    assert not (aggregated / "learning_rates.parquet").exists()


@pytest.mark.parametrize("missing", ["loss_level", "criterion", "kernel"])
def test_what_is_missing_is_one_line(aggregated, error, missing):
    rule = dict(CRITERIA["fig3"])
    if missing == "kernel":
        kernels = tables.read(aggregated / "training_kernels.parquet", TRAINING_KERNELS)
        tables.write(aggregated / "training_kernels.parquet", TRAINING_KERNELS, kernels[:-2])
        missing = "fig4/tiny/mlp/tanh/2"
    else:
        del rule[missing]
    line = error(select_learning_rates.main, select(aggregated, CRITERIA | {"fig3": rule}))
    assert missing in line
