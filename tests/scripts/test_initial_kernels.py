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
from ntk_conditioning.spectra import condition_numbers
from ntk_conditioning.training.descent import rounded_down
from ntk_workflow.trainings import networks
from ntk_workflow.trainings.networks import initial_network
from tests.support.sources import write_prepared
from tests.support.trainings import training_words

SEEDS = (1, 5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_prepared(tmp_path / "train.npz")
    return tmp_path


def kernel(folder: Path, **options: Any) -> list[dict[str, Any]]:
    usual = {"data": folder / "train.npz", "output": folder / "curves.parquet", "seeds": SEEDS}
    usual |= {"experiment": "fig3", "dataset": "tiny", "activation": "relu", "depth": 2}
    usual |= {"width": 16, "epochs": 1, "learning_rates": (0.5,), "rate_unit": "critical"}
    usual["initial_kernels_output"] = folder / "kernel.parquet"
    assert train_network.main(training_words(usual | options)) == 0
    return tables.read(folder / "kernel.parquet", "training_kernels").to_pylist()


def spectrum(row: dict[str, Any], x: Any, activation: str = "relu") -> Any:
    """Return the conditioning of the NTK of a row's network on samples."""
    init = generator(row["seed"], "init")
    mlp = init_mlp(4, depth=2, width=16, activation=activation, generator=init)
    return condition_numbers.conditioning(empirical.ntk(mlp, torch.from_numpy(x)).numpy())


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


def test_of_many_samples_a_part_is_taken_and_what_is_held_out_is_no_part_of_it(folder, monkeypatch):
    x = load_prepared(folder / "train.npz").x
    monkeypatch.setattr(networks, "MOST_SAMPLES", 8)
    for share, n in ((0, 20), (0.3, 14)):
        for row in kernel(folder, test_share=share):
            assert (row["n"], row["n_train"]) == (8, n)
            held = generator(row["seed"], "data").spawn(2)[1].permutation(20)[: 20 - n]
            trained = np.delete(x, held, axis=0)
            block = trained[generator(row["seed"], "blocks").permutation(n)[:8]]
            rate = 16 / spectrum(row, block).lambda_max
            assert row["critical_learning_rate"] == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize("model", ["fc_layer_norm", "resnet_fixup"])
def test_the_kernel_of_modules_has_the_factors_of_their_rates(folder, model):
    x = np.random.default_rng(3).standard_normal((9, 16))
    save_prepared(folder / "train.npz", PreparedSamples("tiny", x, np.arange(9), "none"))
    size: dict[str, Any] = {"depth": 4, "width": 4, "image": (4, 4, 1)}
    (row,) = kernel(folder, model=model, seeds=(1,), **size)
    network, seen = initial_network(model, x, seed=1, activation=activations.get("relu"), **size)
    k = torch.zeros(9, 9, dtype=torch.float64)
    for factor, parameters in network.rate_groups().items():
        given: Any = {"inputs": parameters, "materialize_grads": True}
        gradients = [torch.autograd.grad(network(seen)[0][i], **given) for i in range(9)]
        jacobian = torch.stack([torch.cat([g.flatten() for g in each]) for each in gradients])
        k += factor * jacobian @ jacobian.T
    assert row["lambda_max"] == pytest.approx(torch.linalg.eigvalsh(k)[-1].item(), rel=1e-10)
    assert row["critical_learning_rate"] == pytest.approx(18 / row["lambda_max"], rel=1e-14)


def test_a_kernel_is_of_samples_as_augmentation_has_them_with_colours_first(folder):
    x, given = np.random.default_rng(3).standard_normal((9, 4, 3)), {"model": "fc", "seeds": (1,)}
    largest = []
    for values, augmentation in ((x, "crop_flip"), (x.swapaxes(1, 2), "none")):
        data = PreparedSamples("tiny", values.reshape(9, 12), np.arange(9), "none")
        save_prepared(folder / "train.npz", data)
        (row,) = kernel(folder, image=(2, 2, 3), augmentation=augmentation, **given)
        largest.append(row["lambda_max"])
    assert largest[0] == pytest.approx(largest[1], rel=1e-12)


@pytest.mark.parametrize("unit", ["critical", "smallest_critical"])
def test_rates_are_multiples_of_every_seeds_own_critical_rate_or_of_the_smallest(folder, unit):
    """Also where a job trains a single seed."""
    relative = {"learning_rates": (0.5, 1.0), "rate_unit": unit}
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
        assert kernel(folder, **relative, seeds=(seed,), **others) == [row]
        assert tables.read(curves, "training").to_pylist() == of_seed
