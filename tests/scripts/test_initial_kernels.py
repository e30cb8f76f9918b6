"""Kernels of trainings: those of the very networks and samples, and their critical rates."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import train_network

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples, load_prepared, save_prepared
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra import conditioning
from ntk_conditioning.training.descent import rounded_down
from ntk_workflow.trainings import initial_kernels
from ntk_workflow.trainings.data import labelled_samples
from ntk_workflow.trainings.networks import initial_network
from ntk_workflow.trainings.settings import TrainingSettings
from tests.support.sources import write_prepared
from tests.trainings import to_words

SEEDS = (1, 5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_prepared(tmp_path / "train.npz")
    return tmp_path


def network(folder: Path, options: dict[str, Any]) -> list[str]:
    """Return the arguments that name a network and its samples."""
    usual = {"data": folder / "train.npz", "output": folder / "curves.parquet", "seeds": SEEDS}
    usual |= {"experiment": "fig3", "dataset": "tiny", "activation": "relu"}
    return to_words(usual | {"depth": 2, "width": 16} | options)


def kernel(folder: Path, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of the kernels with which trainings begin."""
    told = {"initial_kernels_output": folder / "kernel.parquet"}
    brief = {"epochs": 1, "learning_rates": 0.5, "rate_unit": "critical"} | told
    assert train_network.main(network(folder, brief | options)) == 0
    return tables.read(folder / "kernel.parquet", "training_kernels").to_pylist()


def spectrum(row: dict[str, Any], x: Any, activation: str = "relu") -> Any:
    """Return the conditioning of the NTK of a row's network on samples."""
    init = generator(row["seed"], "init")
    mlp = init_mlp(4, depth=2, width=16, activation=activation, generator=init)
    return conditioning.conditioning(empirical.ntk(mlp, torch.from_numpy(x)).numpy())


def test_a_kernel_is_the_ntk_of_the_networks_that_are_trained(folder):
    """All samples in another order: eigenvalues within 1e-12, thousands of roundings."""
    table = kernel(folder, activation="tanh")
    assert [row["seed"] for row in table] == [*SEEDS]
    for row in table:
        expected = spectrum(row, load_prepared(folder / "train.npz").x, "tanh")
        near = {"abs": 0, "rel": 1e-12}
        assert row["lambda_max"] == pytest.approx(expected.lambda_max, **near)
        # The smallest eigenvalue is known to so many digits fewer as kappa has.
        assert row["kappa"] == pytest.approx(expected.kappa, abs=0, rel=1e-14 * expected.kappa)
        assert row["lambda_min"] == pytest.approx(row["lambda_max"] / row["kappa"], **near)
        assert row["critical_learning_rate"] == pytest.approx(40 / expected.lambda_max, **near)
        assert (row["n"], row["n_train"], row["width"]) == (20, 20, 16)
        assert (row["activation"], row["depth"], row["model"]) == ("tanh", 2, "mlp")


def test_a_linear_network_of_more_samples_than_features_has_no_kappa(folder):
    for row in kernel(folder, activation="linear"):
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
    factor = empirical.linear_factor(mlp, torch.from_numpy(x)).numpy()
    expected = conditioning.conditioning_from_factor(factor)
    assert row["kappa"] > 1e17
    assert row["kappa"] == pytest.approx(expected.kappa, rel=1e-4)  # digits that are left


def test_of_many_samples_a_part_is_taken_by_rng(folder, monkeypatch):
    whole = kernel(folder)
    monkeypatch.setattr(initial_kernels, "MOST_SAMPLES", 8)
    part = kernel(folder)
    x = load_prepared(folder / "train.npz").x
    for row, all_of_them in zip(part, whole, strict=True):
        assert (row["n"], row["n_train"]) == (8, 20)
        largest = spectrum(row, x[generator(row["seed"], "blocks").permutation(20)[:8]]).lambda_max
        assert row["critical_learning_rate"] == pytest.approx(16 / largest, rel=1e-12)
        # An eigenvalue that grows like the number of samples leaves the rate as it is, roughly.
        ratio = row["critical_learning_rate"] / all_of_them["critical_learning_rate"]
        assert 0.5 < ratio < 2


def test_what_is_held_out_for_tests_is_no_part_of_it(folder):
    rows = kernel(folder, **{"test-share": 0.3})
    settings = TrainingSettings(seeds=SEEDS, test_share=0.3, epochs=1, learning_rates=(0.1,))
    trained = labelled_samples(folder / "train.npz", None, "tiny", settings).train
    for row in rows:
        assert (row["n"], row["n_train"]) == (14, 14)
        expected = spectrum(row, trained[row["seed"]].x)
        assert row["critical_learning_rate"] == pytest.approx(28 / expected.lambda_max, rel=1e-12)


@pytest.mark.parametrize("model", ["fc_layer_norm", "resnet_fixup"])
def test_gradient_descent_of_any_network_has_its_critical_rate(folder, model):
    """A step changes the outputs by -rate/n K f at first, with small steps of 1e-6."""
    x = np.random.default_rng(3).standard_normal((9, 16))
    save_prepared(folder / "train.npz", PreparedSamples("tiny", x, np.arange(9), "none"))
    size = {"model": model, "depth": 4, "width": 4, "image": (4, 4, 1), "seeds": 1}
    (row,) = kernel(folder, **size)
    made = {"seed": 1, "depth": 4, "width": 4, "activation": activations.get("relu")}
    network, seen = initial_network(model, x, **made, image=(4, 4, 1))
    steps = []
    for i in range(9):
        before = [parameter.detach().clone() for parameter in network.parameters()]
        network.zero_grad()
        network(seen)[0][i].backward()
        with torch.no_grad():
            f = network(seen)[0]
            for factor, parameters in network.rate_groups().items():
                for parameter in parameters:
                    if parameter.grad is not None:
                        parameter += 1e-6 * factor * parameter.grad
            steps.append((network(seen)[0] - f).squeeze(1) / 1e-6)
            for parameter, value in zip(network.parameters(), before, strict=True):
                parameter.copy_(value)
    largest = torch.linalg.eigvals(torch.stack(steps)).abs().max().item()
    assert row["lambda_max"] == pytest.approx(largest, rel=1e-4)
    assert row["critical_learning_rate"] == pytest.approx(18 / row["lambda_max"], rel=1e-14)


def test_a_rate_below_the_critical_one_converges_and_one_beyond_diverges(folder):
    """Of a linear model with full batches, whose kernel stays what it is."""
    x = np.random.default_rng(2).standard_normal((6, 9))
    save_prepared(folder / "train.npz", PreparedSamples("tiny", x, np.arange(6) % 2, "none"))
    (row,) = kernel(folder, depth=0, seeds=1)
    rates = tuple(rounded_down(row["critical_learning_rate"] * k) for k in (0.97, 1.04))
    train = {"batch_size": "all", "loss": "square", "outputs": "scalar", "dtype": "float64"}
    train |= {"epochs": 200, "evaluate_every": 100, "learning_rates": rates, "depth": 0, "seeds": 1}
    assert train_network.main(network(folder, train)) == 0
    curves = tables.read(folder / "curves.parquet", "training")
    losses = curves["train_loss"].to_pylist()
    assert losses[0] > losses[1] > losses[2]
    assert curves["diverged"].to_pylist() == [False] * 4 + [True] * 2


@pytest.mark.parametrize("unit", ["critical", "smallest_critical"])
def test_rates_are_multiples_of_every_seeds_own_critical_rate_or_of_the_smallest(folder, unit):
    """Also where a job trains a single seed; and networks train as with these rates as numbers."""
    relative = {"learning_rates": (1, 0.5), "rate_unit": unit}
    table = kernel(folder, **relative)
    critical = {row["seed"]: row["critical_learning_rate"] for row in table}
    others: dict[str, Any] = {}
    if unit == "smallest_critical":
        critical = dict.fromkeys(SEEDS, min(critical.values()))
        others = {"critical_seeds": SEEDS}
    curves = folder / "curves.parquet"
    every = tables.read(curves, "training").to_pylist()
    rates = [(row["seed"], row["relative_rate"], row["learning_rate"]) for row in every[::2]]
    assert rates == [(s, r, rounded_down(r * critical[s])) for s in SEEDS for r in (0.5, 1)]
    for seed, row in zip(SEEDS, table, strict=True):
        of_seed = [each for each in every if each["seed"] == seed]
        assert kernel(folder, **relative, seeds=seed, **others) == [row]
        assert tables.read(curves, "training").to_pylist() == of_seed
        numbers = tuple(each[-1] for each in rates if each[0] == seed)
        kernel(folder, seeds=seed, learning_rates=numbers, rate_unit="one")
        changed = [
            each | {"rate_unit": "one", "relative_rate": each["learning_rate"]} for each in of_seed
        ]
        assert tables.read(curves, "training").to_pylist() == changed


def test_torch_modules_have_a_kernel_only_if_their_rates_need_it(folder):
    size = {"model": "fc_layer_norm", "depth": 2, "width": 4}
    assert kernel(folder, **size, rate_unit="one") == []
    assert len(kernel(folder, **size)) == len(SEEDS)
